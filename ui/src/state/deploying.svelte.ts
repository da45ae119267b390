// The plan being looked at before a model is deployed: asked for again whenever the choice changes.
import { ApiError, type Client } from '../api/client';
import type { DeployRequest, PlanView } from '../api/types.gen';

export class Deploying {
  readonly #client: Client;
  /** The model in question; `null` while none is. */
  model = $state<string | null>(null);
  /** Spread over all of these nodes; `null` is on as few of the cluster as hold it. */
  nodeIds = $state.raw<string[] | null>(null);
  contextTokens = $state<number | null>(null);
  plan = $state.raw<PlanView | null>(null);
  error = $state.raw<ApiError | null>(null);
  busy = $state(false);
  #asking = new AbortController();

  constructor(client: Client) {
    this.#client = client;
  }

  open(model: string, nodeIds: string[] | null = null): void {
    this.model = model;
    this.nodeIds = nodeIds;
    this.contextTokens = null;
    this.plan = null;
    void this.#ask();
  }

  choose(choice: { nodeIds?: string[] | null; contextTokens?: number | null }): void {
    if (choice.nodeIds !== undefined) this.nodeIds = choice.nodeIds;
    if (choice.contextTokens !== undefined) this.contextTokens = choice.contextTokens;
    void this.#ask();
  }

  close(): void {
    this.#asking.abort();
    this.model = null;
  }

  /** True once the deployment is under way. */
  async confirm(): Promise<boolean> {
    const request = this.#request();
    if (request === null) return false;
    this.busy = true;
    try {
      await this.#client.deploy(request);
      this.close();
      return true;
    } catch (thrown) {
      this.error = ApiError.from(thrown);
      return false;
    } finally {
      this.busy = false;
    }
  }

  async #ask(): Promise<void> {
    this.#asking.abort();
    const asking = new AbortController();
    this.#asking = asking;
    const request = this.#request();
    if (request === null) return;
    this.busy = true;
    this.error = null;
    try {
      this.plan = await this.#client.plan(request, asking.signal);
    } catch (thrown) {
      if (asking.signal.aborted) return;
      this.plan = null;
      this.error = ApiError.from(thrown);
    } finally {
      if (!asking.signal.aborted) this.busy = false;
    }
  }

  #request(): DeployRequest | null {
    if (this.model === null) return null;
    return {
      model: this.model,
      ...(this.nodeIds !== null && { nodeIds: this.nodeIds }),
      ...(this.contextTokens !== null && { contextTokens: this.contextTokens }),
    };
  }
}
