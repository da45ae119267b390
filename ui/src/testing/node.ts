// A node for component tests: answers `fetch` from a table of routes, and remembers what was asked.
import { vi } from 'vitest';
import type { ClusterEvent, ClusterView, ModelView } from '../api/types.gen';
import type { Host } from '../host/host';
import { App, type ViewName } from '../state/app.svelte';

export interface Asked {
  route: string;
  body: unknown;
}

type Answer = (body: unknown) => unknown;

export class FakeNode {
  readonly asked: Asked[] = [];
  readonly #routes = new Map<string, Answer>();
  #events: ReadableStreamDefaultController<Uint8Array> | null = null;
  #rev = 1;

  constructor(view: ClusterView, models: ModelView[] = []) {
    this.on('GET /v1/cluster', () => ({ rev: this.#rev, view }));
    this.on('GET /v1/cluster/models', () => models);
    this.on('GET /v1/chats', () => []);
    this.on('GET /v1/cluster/events', () => this.#stream());
    vi.stubGlobal('fetch', this.#fetch);
  }

  on(route: string, answer: Answer): void {
    this.#routes.set(route, answer);
  }

  /** What the UI asked of one route, in order. */
  bodies(route: string): unknown[] {
    return this.asked.filter((ask) => ask.route === route).map(({ body }) => body);
  }

  send(changes: ClusterEvent['changes']): void {
    this.#rev += 1;
    const event: ClusterEvent = { rev: this.#rev, changes };
    this.#events?.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(event)}\n\n`));
  }

  #stream(): Response {
    return new Response(
      new ReadableStream<Uint8Array>({
        start: (controller) => {
          this.#events = controller;
        },
      }),
    );
  }

  #fetch = async (url: string, init: RequestInit = {}): Promise<Response> => {
    const { pathname, search } = new URL(url);
    const route = `${init.method ?? 'GET'} ${pathname}${search}`;
    const body: unknown = typeof init.body === 'string' ? JSON.parse(init.body) : undefined;
    this.asked.push({ route, body });
    const answer = this.#routes.get(route)?.(body);
    if (answer instanceof Response) return answer;
    return answer === undefined ? new Response(null, { status: 204 }) : Response.json(answer);
  };
}

/** The node's refusal, as it writes one. */
export function refusal(message: string, hints: string[]): Response {
  const error = { message, type: 'invalid_request_error', code: 'test', param: null, hints };
  return Response.json({ error }, { status: 400 });
}

/** A streamed answer of a few tokens. */
export function streamedAnswer(tokens: readonly string[]): Response {
  const chunks = [
    ...tokens.map((content) => ({ choices: [{ delta: { content }, finish_reason: null }] })),
    { choices: [{ delta: {}, finish_reason: 'stop' }] },
    {
      choices: [],
      usage: { prompt_tokens: 12, completion_tokens: tokens.length },
      timings: { prompt_ms: 80, first_token_ms: 95, tokens_per_sec: 42 },
    },
  ];
  const lines = [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]'];
  return new Response(lines.map((line) => `data: ${line}\n\n`).join(''));
}

export function testApp(view: ViewName, can: Partial<Host['can']> = {}): App {
  const host: Host = {
    kind: 'browser',
    can: { autostart: false, revealFolder: false, ...can },
    api: () => ({ baseUrl: 'http://node.test', token: 'secret' }),
    revealFolder: () => Promise.resolve(),
    autostart: () => Promise.resolve(false),
    setAutostart: () => Promise.resolve(),
  };
  return new App(host, view);
}
