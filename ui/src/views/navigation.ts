// The four views as the reader meets them.
import type { ViewName } from '../state/app.svelte';

export const PLACES: readonly { view: ViewName; label: string }[] = [
  { view: 'chat', label: 'Chat' },
  { view: 'cluster', label: 'Cluster' },
  { view: 'models', label: 'Models' },
  { view: 'settings', label: 'Settings' },
];
