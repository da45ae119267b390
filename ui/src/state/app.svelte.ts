// Everything the views share, made once by `main.ts` and handed down.
import { Client } from '../api/client';
import type { Host } from '../host/host';
import { ChatStore } from './chats.svelte';
import { ClusterStore } from './cluster.svelte';
import { Deploying } from './deploying.svelte';
import { ModelStore } from './models.svelte';
import { Toasts } from './toasts.svelte';

export const VIEWS = ['chat', 'cluster', 'models', 'settings'] as const;
export type ViewName = (typeof VIEWS)[number];

export class App {
  readonly host: Host;
  readonly client: Client;
  readonly cluster: ClusterStore;
  readonly chats: ChatStore;
  readonly models: ModelStore;
  readonly deploying: Deploying;
  readonly toasts = new Toasts();
  view = $state<ViewName>('chat');
  /** The model chosen in the chat's picker. */
  chosenModel = $state<string | null>(null);

  constructor(host: Host, firstView: ViewName) {
    this.host = host;
    this.view = firstView;
    this.client = new Client(host.api());
    this.cluster = new ClusterStore(this.client);
    this.chats = new ChatStore(this.client);
    this.models = new ModelStore(this.client);
    this.deploying = new Deploying(this.client);
  }

  show(view: ViewName): void {
    this.view = view;
    // In the fragment, so that a reload comes back here; replaced, so that Back leaves the app.
    history.replaceState(null, '', `#/${view}`);
  }
}

/** The view that the address names, `#/cluster`. */
export function viewIn(fragment: string): ViewName {
  return VIEWS.find((view) => fragment === `#/${view}`) ?? 'chat';
}
