import { beforeEach, expect, test, vi } from 'vitest';
import { Client } from '../api/client';
import { clusterView } from '../testing/cluster';
import { FakeNode } from '../testing/node';
import { ChatStore } from './chats.svelte';

let node: FakeNode;
let store: ChatStore;

beforeEach(async () => {
  node = new FakeNode(clusterView());
  node.on('GET /v1/chats', () => [
    { id: 'chat-new', title: 'New', updatedAtMs: 2, nMessages: 1 },
    { id: 'chat-old', title: 'Old', updatedAtMs: 1, nMessages: 1 },
  ]);
  store = new ChatStore(new Client({ baseUrl: 'http://node.test', token: 't' }));
  await store.refresh();
});

const ids = () => store.list.map(({ id }) => id);

test('a deleted chat leaves the list and the node', async () => {
  await store.delete('chat-new');
  expect(ids()).toEqual(['chat-old']);
  expect(node.bodies('DELETE /v1/chats/chat-new')).toHaveLength(1);
});

test('undo brings it back from the node', async () => {
  await store.delete('chat-new');
  await store.undoDelete('chat-new');
  expect(node.bodies('POST /v1/chats/chat-new/restore')).toHaveLength(1);
  expect(ids()).toEqual(['chat-new', 'chat-old']);
});

test('an answer that ends after its chat was deleted does not bring it back', async () => {
  const { current } = store;
  const answering = current.ask('hi', 'm');
  await vi.waitFor(() => expect(ids()).toContain(current.chat.id));
  await store.delete(current.chat.id);
  await answering;
  expect(ids()).toEqual(['chat-new', 'chat-old']);
});

test('a chat is fetched when it is opened', async () => {
  const messages = [{ role: 'user', text: 'hi', facts: null }];
  node.on('GET /v1/chats/chat-old', () => ({
    id: 'chat-old',
    title: 'Old',
    model: null,
    messages,
  }));
  await store.open('chat-old');
  expect(store.current.chat.messages).toHaveLength(1);
});
