// A deployment's state in one word, and how it looks.
import type { DeploymentStatus } from '../api/types.gen';

type Tone = 'good' | 'busy' | 'bad';

export const PHASE: Record<DeploymentStatus, { text: string; tone: Tone }> = {
  fetching: { text: 'Fetching', tone: 'busy' },
  loading: { text: 'Loading', tone: 'busy' },
  connecting: { text: 'Connecting', tone: 'busy' },
  serving: { text: 'Serving', tone: 'good' },
  failed: { text: 'Failed', tone: 'bad' },
};
