import { expect, test, vi } from 'vitest';
import { Client } from '../api/client';
import type { Chat } from '../api/types.gen';
import { clusterView } from '../testing/cluster';
import { FakeNode, refusal, streamedAnswer } from '../testing/node';
import { newChat } from './chat';
import { ChatSession } from './chat.svelte';

const client = new Client({ baseUrl: 'http://node.test', token: 't' });
const session = () => new ChatSession(client, newChat('id-12345'), () => undefined);
const saved = (node: FakeNode) => node.bodies('PUT /v1/chats/id-12345') as Chat[];

/** An answer that goes on until it is stopped. */
function endless(): Response {
  const chunk = 'data: {"choices":[{"delta":{"content":"and "}}]}\n\n';
  return new Response(
    new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new TextEncoder().encode(chunk)),
    }),
  );
}

test('a question is saved before its answer, and the answer with its facts', async () => {
  const node = new FakeNode(clusterView());
  node.on('POST /v1/chat/completions', () => streamedAnswer(['Red', ', blue']));
  const chat = session();
  await chat.ask('Colours?', 'm');

  expect(chat.answer).toBe(null);
  expect(chat.chat.messages[1]).toEqual({
    role: 'assistant',
    text: 'Red, blue',
    facts: {
      model: 'm',
      promptTokens: 12,
      completionTokens: 2,
      firstTokenMs: 95,
      tokensPerSec: 42,
      ended: 'stop',
    },
  });
  expect(saved(node).map(({ messages }) => messages.length)).toEqual([1, 2]);
  expect(node.bodies('POST /v1/chat/completions')).toEqual([
    {
      model: 'm',
      messages: [{ role: 'user', content: 'Colours?' }],
      temperature: 0.6,
      top_p: 0.9,
      stream: true,
      stream_options: { include_usage: true },
    },
  ]);
});

test('a stopped answer keeps its text and says that it was stopped', async () => {
  const node = new FakeNode(clusterView());
  node.on('POST /v1/chat/completions', endless);
  const chat = session();
  // The fake stream does not listen to the signal; a real one ends with an error.
  const fetch = globalThis.fetch;
  vi.stubGlobal('fetch', async (url: string, init: RequestInit) => {
    const response = await fetch(url, init);
    if (!url.endsWith('/completions') || response.body === null) return response;
    const reader = response.body.getReader();
    const body = new ReadableStream<Uint8Array>({
      async start(controller) {
        init.signal?.addEventListener('abort', () => controller.error(new Error('aborted')));
        const { value } = await reader.read();
        if (value) controller.enqueue(value);
      },
    });
    return new Response(body);
  });

  const answering = chat.ask('Count', 'm');
  await vi.waitFor(() => expect(chat.answer?.text).toBe('and '));
  chat.stop();
  await answering;

  const answer = chat.chat.messages[1];
  expect(answer?.text).toBe('and ');
  expect(answer?.facts?.ended).toBe('stopped by you');
  expect(chat.failure).toBe(null);
  expect(saved(node).at(-1)?.messages).toHaveLength(2);
});

test('an error in mid-answer keeps the text, shows its hints, and can be tried again', async () => {
  const node = new FakeNode(clusterView());
  node.on(
    'POST /v1/chat/completions',
    () =>
      new Response(
        'data: {"choices":[{"delta":{"content":"Half"}}]}\n\n' +
          'data: {"error":{"message":"rank 1 on mini stopped","type":"server_error","code":"rank_lost","param":null,"hints":["deploy again"]}}\n\n',
      ),
  );
  const chat = session();
  await chat.ask('Colours?', 'm');
  expect(chat.failure?.hints).toEqual(['deploy again']);
  expect(chat.chat.messages[1]?.text).toBe('Half');
  expect(chat.chat.messages[1]?.facts?.ended).toBe('rank 1 on mini stopped');

  node.on('POST /v1/chat/completions', () => streamedAnswer(['Whole']));
  await chat.regenerate('m');
  expect(chat.failure).toBe(null);
  expect(chat.chat.messages.map(({ text }) => text)).toEqual(['Colours?', 'Whole']);
});

test('a request that is refused leaves the question to be asked again', async () => {
  const node = new FakeNode(clusterView());
  node.on('POST /v1/chat/completions', () => refusal('the context is full', ['start a new chat']));
  const chat = session();
  await chat.ask('Colours?', 'm');
  expect(chat.failure?.message).toBe('the context is full');
  expect(chat.chat.messages).toHaveLength(1);
});
