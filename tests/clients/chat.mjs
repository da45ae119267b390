// Uses the API as a program with OpenAI's client for Node does. Arguments: base URL, model. Fails by an assertion.
import assert from 'node:assert/strict';
import OpenAI, { APIError, BadRequestError, NotFoundError } from 'openai';

const [baseURL, model] = process.argv.slice(2);
// No retries: each failure is looked at once.
const client = new OpenAI({ baseURL, apiKey: 'none', maxRetries: 0, timeout: 20_000 });

const ask = (prompt, extra = {}) =>
  client.chat.completions.create({ model, messages: [{ role: 'user', content: prompt }], ...extra });

assert.deepEqual((await client.models.list()).data.map((card) => card.id), [model]);
assert.equal((await client.models.retrieve(model)).owned_by, 'macrame');

let answer = await ask('Name three primary colours.', { temperature: 0, max_completion_tokens: 16, seed: 7, stop: '\n\n' });
assert.equal(answer.choices[0].message.content, 'Red, yellow, blue.');
assert.equal(answer.choices[0].finish_reason, 'stop');
assert.equal(answer.usage.total_tokens, 13);
assert.ok(answer.timings.first_token_ms > 0);

let text = '';
let last;
for await (const chunk of await ask('Name three primary colours.', { stream: true, stream_options: { include_usage: true } })) {
  text += chunk.choices[0]?.delta.content ?? '';
  last = chunk;
}
assert.equal(text, 'Red, yellow, blue.');
assert.equal(last.usage.completion_tokens, 4);

answer = await ask('Name three primary colours.', { logprobs: true, top_logprobs: 1 });
assert.deepEqual(answer.choices[0].logprobs.content[0].top_logprobs.map((top) => top.token), ['Red,']);

await assert.rejects(ask('hello', { model: 'org/none' }), (error) => error instanceof NotFoundError && error.code === 'model_not_found');
await assert.rejects(ask('hello', { n: 2 }), (error) => error instanceof BadRequestError && error.param === 'n');
await assert.rejects(ask('fail midway'), (error) => error instanceof APIError && error.status === 502 && error.code === 'rank_lost');

text = '';
await assert.rejects(
  async () => {
    for await (const chunk of await ask('fail midway', { stream: true })) text += chunk.choices[0]?.delta.content ?? '';
  },
  (error) => error instanceof APIError && error.message.includes('mini'),
);
assert.equal(text, 'Red,');

const endless = await ask('never end', { stream: true });
for await (const chunk of endless) {
  if (chunk.choices[0]?.delta.content) endless.controller.abort();
}
console.log('done');
