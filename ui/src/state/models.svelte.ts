// Models on this node's disk, fetched again whenever a download or a deployment comes or goes.
import type { Client } from '../api/client';
import type { ClusterView, ModelView } from '../api/types.gen';

export class ModelStore {
  readonly #client: Client;
  /** `null` until the node has answered once. */
  list = $state.raw<ModelView[] | null>(null);

  constructor(client: Client) {
    this.#client = client;
  }

  async refresh(): Promise<void> {
    this.list = await this.#client.models();
  }
}

/** Changes exactly when the list of models may have changed. */
export function modelsKey(view: ClusterView | null): string {
  if (view === null) return '';
  const downloads = view.downloads.map(({ model, error }) => `${model}:${error === null}`);
  const deployments = view.deployments.map(({ id, status }) => `${id}:${status}`);
  return JSON.stringify([downloads, deployments]);
}

/** The largest that runs here and is not too large to be pleasant: what an empty chat offers to deploy. */
export function modelToOffer(models: readonly ModelView[], usableBytes: number): ModelView | null {
  // Weights need company: KV cache and workspace.
  const fits = models.filter(
    ({ obstacle, sizeBytes }) => obstacle === null && sizeBytes < usableBytes * 0.9,
  );
  return fits.toSorted((a, b) => b.sizeBytes - a.sizeBytes)[0] ?? null;
}
