import { expect, test } from 'vitest';
import { answerParts, parseChunk } from './completion';

async function* stream(...events: string[]) {
  yield* events;
}

test('a whole answer gives its text, its end and its figures', async () => {
  const parts = await collected(
    answerParts(
      stream(
        '{"choices":[{"delta":{"role":"assistant"}}]}',
        '{"choices":[{"delta":{"content":"Hi"},"finish_reason":null}]}',
        '{"choices":[{"delta":{},"finish_reason":"length"}]}',
        '{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1},"timings":{"prompt_ms":1,"first_token_ms":2.5,"tokens_per_sec":40}}',
        '[DONE]',
      ),
    ),
  );
  expect(parts).toEqual([
    { kind: 'text', text: 'Hi' },
    { kind: 'finish', reason: 'length' },
    {
      kind: 'usage',
      promptTokens: 3,
      completionTokens: 1,
      timings: { firstTokenMs: 2.5, tokensPerSec: 40 },
    },
  ]);
});

test('an error in mid-answer is thrown with its hints', () => {
  const data =
    '{"error":{"message":"rank 1 on mini stopped","type":"server_error","code":"rank_lost","param":null,"hints":["deploy again"]}}';
  expect(() => parseChunk(data)).toThrow(
    expect.objectContaining({
      message: 'rank 1 on mini stopped',
      code: 'rank_lost',
      hints: ['deploy again'],
    }),
  );
});

test('a stream that ends without its mark never passes for a whole answer', async () => {
  const parts = answerParts(stream('{"choices":[{"delta":{"content":"cut"}}]}'));
  await expect(collected(parts)).rejects.toMatchObject({ code: 'stream_cut' });
});

async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
