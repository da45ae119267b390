// Keeps the cluster's view fresh: snapshot, event stream, and again from the start after a gap or a lost connection.
import { ApiError, type Client, UNAUTHORISED } from '../api/client';
import type { ClusterSnapshot } from '../api/types.gen';
import { apply, backOffMs, servedModels } from './cluster';

export type Connection = 'connecting' | 'live' | 'lost' | 'refused';

export class ClusterStore {
  readonly #client: Client;
  #snapshot = $state.raw<ClusterSnapshot | null>(null);
  connection = $state<Connection>('connecting');
  #closed = new AbortController();

  constructor(client: Client) {
    this.#client = client;
  }

  /** `null` until the node has answered once. */
  get view() {
    return this.#snapshot?.view ?? null;
  }

  get servedModels(): string[] {
    return this.view === null ? [] : servedModels(this.view);
  }

  /** Runs until `stop`. */
  async start(): Promise<void> {
    this.#closed = new AbortController();
    const { signal } = this.#closed;
    let attempt = 0;
    while (!signal.aborted) {
      try {
        await this.#follow(signal, () => (attempt = 0));
      } catch (thrown) {
        if (signal.aborted) return;
        if (ApiError.from(thrown).code === UNAUTHORISED) {
          this.connection = 'refused';
          return;
        }
      }
      this.connection = 'lost';
      await pause(backOffMs(attempt), signal);
      attempt += 1;
    }
  }

  stop(): void {
    this.#closed.abort();
  }

  /** Returns when the stream ends; throws when the node cannot be asked. */
  async #follow(signal: AbortSignal, onlive: () => void): Promise<void> {
    // Opened before the snapshot is fetched, so that no change falls between the two.
    const events = this.#client.clusterEvents(signal);
    const first = events.next();
    first.catch(() => undefined);
    let snapshot = await this.#fetch(signal);
    onlive();
    for (let next = await first; !next.done; next = await events.next()) {
      const applied = apply(snapshot, next.value);
      snapshot = applied === 'gap' ? await this.#fetch(signal) : applied;
      this.#snapshot = snapshot;
    }
  }

  async #fetch(signal: AbortSignal): Promise<ClusterSnapshot> {
    const snapshot = await this.#client.cluster(signal);
    this.#snapshot = snapshot;
    this.connection = 'live';
    return snapshot;
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
