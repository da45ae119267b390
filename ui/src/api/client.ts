// The node's API as functions. The only place that calls `fetch`.
import { readEvents } from './sse';
import type {
  Chat,
  ChatSummary,
  ClusterEvent,
  ClusterSnapshot,
  Deployed,
  DeployRequest,
  DownloadRequest,
  ErrorBody,
  ErrorView,
  ModelView,
  Paired,
  PairingView,
  PairRequest,
  PlanView,
  SettingsChange,
  SettingsView,
} from './types.gen';

/** An error with the node's own words and hints, or ours when the node could not be asked. */
export class ApiError extends Error {
  readonly code: string;
  readonly hints: readonly string[];

  constructor(view: Pick<ErrorView, 'message' | 'code' | 'hints'>) {
    super(view.message);
    this.name = 'ApiError';
    this.code = view.code;
    this.hints = view.hints;
  }

  /** Whatever was thrown, as something that can be shown. */
  static from(thrown: unknown): ApiError {
    if (thrown instanceof ApiError) return thrown;
    const why = thrown instanceof Error ? thrown.message : String(thrown);
    return new ApiError({ code: 'internal', message: why, hints: [] });
  }
}

export const UNREACHABLE = 'node_unreachable';
export const UNAUTHORISED = 'unauthorised';

interface Ask {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  body?: unknown;
  signal?: AbortSignal | undefined;
  /** Lets the request outlive the page. */
  keepalive?: boolean;
}

export class Client {
  readonly #baseUrl: string;
  readonly #token: string;

  constructor(api: { baseUrl: string; token: string }) {
    this.#baseUrl = api.baseUrl;
    this.#token = api.token;
  }

  cluster = (signal?: AbortSignal) => this.#json<ClusterSnapshot>('/v1/cluster', { signal });

  /** Changes as they happen, until the connection ends. */
  async *clusterEvents(signal: AbortSignal): AsyncGenerator<ClusterEvent> {
    const response = await this.#send('/v1/cluster/events', { signal });
    for await (const data of readEvents(bodyOf(response))) yield JSON.parse(data) as ClusterEvent;
  }

  plan = (request: DeployRequest, signal: AbortSignal) =>
    this.#json<PlanView>('/v1/cluster/plan', { method: 'POST', body: request, signal });
  deploy = (request: DeployRequest) =>
    this.#json<Deployed>('/v1/cluster/deployments', { method: 'POST', body: request });
  stopDeployment = (id: string) => this.#done(`/v1/cluster/deployments/${seg(id)}`, 'DELETE');

  models = () => this.#json<ModelView[]>('/v1/cluster/models');
  download = (request: DownloadRequest) => this.#done('/v1/cluster/downloads', 'POST', request);
  cancelDownload = (model: string) =>
    this.#done(`/v1/cluster/downloads?model=${seg(model)}`, 'DELETE');

  showPairingCode = () => this.#json<PairingView>('/v1/cluster/pairing', { method: 'POST' });
  hidePairingCode = () => this.#done('/v1/cluster/pairing', 'DELETE');
  pair = (request: PairRequest) =>
    this.#json<Paired>('/v1/cluster/pair', { method: 'POST', body: request });
  unpair = (nodeId: string) => this.#done(`/v1/cluster/nodes/${seg(nodeId)}`, 'DELETE');

  chats = () => this.#json<ChatSummary[]>('/v1/chats');
  chat = (id: string) => this.#json<Chat>(`/v1/chats/${seg(id)}`);
  saveChat = (chat: Chat) => this.#done(`/v1/chats/${seg(chat.id)}`, 'PUT', chat);
  /** For a page that is being closed: no answer is awaited. */
  saveChatAtExit = (chat: Chat) =>
    void this.#send(`/v1/chats/${seg(chat.id)}`, {
      method: 'PUT',
      body: chat,
      keepalive: true,
    }).catch(() => undefined);
  /** The node keeps it for a while, so that it can be brought back. */
  deleteChat = (id: string) => this.#done(`/v1/chats/${seg(id)}`, 'DELETE');
  restoreChat = (id: string) => this.#done(`/v1/chats/${seg(id)}/restore`, 'POST');

  settings = () => this.#json<SettingsView>('/v1/settings');
  changeSettings = (change: SettingsChange) =>
    this.#json<SettingsView>('/v1/settings', { method: 'PUT', body: change });

  /** The events of a streamed answer, as their JSON text. Aborting stops the generation in the node. */
  async *completion(request: unknown, signal: AbortSignal): AsyncGenerator<string> {
    const ask: Ask = { method: 'POST', body: request, signal };
    yield* readEvents(bodyOf(await this.#send('/v1/chat/completions', ask)));
  }

  async #json<T>(path: string, ask: Ask = {}): Promise<T> {
    const response = await this.#send(path, ask);
    return (await response.json()) as T;
  }

  async #done(path: string, method: 'POST' | 'PUT' | 'DELETE', body?: unknown): Promise<void> {
    await this.#send(path, { method, body });
  }

  async #send(path: string, ask: Ask): Promise<Response> {
    const { method = 'GET', body, signal, keepalive } = ask;
    const headers: Record<string, string> = { Authorization: `Bearer ${this.#token}` };
    const init: RequestInit = { method, headers };
    if (body !== undefined) {
      headers['Content-Type'] = 'application/json';
      init.body = JSON.stringify(body);
    }
    if (signal) init.signal = signal;
    if (keepalive) init.keepalive = true;

    let response: Response;
    try {
      response = await fetch(this.#baseUrl + path, init);
    } catch (thrown) {
      if (signal?.aborted) throw thrown;
      throw new ApiError({
        code: UNREACHABLE,
        message: 'this node does not answer',
        hints: ['start Macramé again; this page reconnects by itself'],
      });
    }
    if (response.ok) return response;
    throw await refusal(response);
  }
}

async function refusal(response: Response): Promise<ApiError> {
  if (response.status === 401) {
    return new ApiError({
      code: UNAUTHORISED,
      message: 'this page has no valid token for the node',
      hints: ['open the address that the node printed when it started'],
    });
  }
  try {
    return new ApiError(((await response.json()) as ErrorBody).error);
  } catch {
    return new ApiError({
      code: 'unexpected_answer',
      message: `the node answered with status ${response.status}`,
      hints: ['look into the node’s log; Settings names its folder'],
    });
  }
}

function bodyOf(response: Response): ReadableStream<Uint8Array> {
  if (response.body === null) throw new Error('the node’s answer has no body');
  return response.body;
}

const seg = encodeURIComponent;
