import { expect, test, vi } from 'vitest';
import { Client } from './client';

const client = new Client({ baseUrl: 'http://node.test', token: 'secret' });

test('every request carries the token', async () => {
  const fetch = vi.fn(async () => Response.json([]));
  vi.stubGlobal('fetch', fetch);
  await client.models();
  expect(fetch).toHaveBeenCalledWith(
    'http://node.test/v1/cluster/models',
    expect.objectContaining({ headers: { Authorization: 'Bearer secret' } }),
  );
});

test('names are escaped in addresses', async () => {
  const fetch = vi.fn(async () => new Response(null, { status: 204 }));
  vi.stubGlobal('fetch', fetch);
  await client.cancelDownload('a/b?c');
  expect(fetch).toHaveBeenCalledWith(
    'http://node.test/v1/cluster/downloads?model=a%2Fb%3Fc',
    expect.anything(),
  );
});

test.each([
  [
    'a refusal in the node’s words',
    400,
    '{"error":{"message":"too big","code":"no_plan","hints":["h"]}}',
    'no_plan',
  ],
  ['a refusal without words', 502, '<html>', 'unexpected_answer'],
  ['a token that is no longer good', 401, '', 'unauthorised'],
])('%s becomes an error with a code', async (_name, status, body, code) => {
  vi.stubGlobal('fetch', async () => new Response(body, { status }));
  await expect(client.models()).rejects.toMatchObject({ code });
});

test('a node that does not answer is said to be unreachable', async () => {
  vi.stubGlobal('fetch', async () => {
    throw new TypeError('fetch failed');
  });
  await expect(client.models()).rejects.toMatchObject({ code: 'node_unreachable' });
});
