import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Client } from '../api/client';
import { clusterView } from '../testing/cluster';
import { FakeNode } from '../testing/node';
import { ChatStore, UNDO_MS } from './chats.svelte';

let node: FakeNode;
let store: ChatStore;

beforeEach(async () => {
  vi.useFakeTimers();
  node = new FakeNode(clusterView());
  node.on('GET /v1/chats', () => [
    { id: 'chat-new', title: 'New', updatedAtMs: 2, nMessages: 1 },
    { id: 'chat-old', title: 'Old', updatedAtMs: 1, nMessages: 1 },
  ]);
  store = new ChatStore(new Client({ baseUrl: 'http://node.test', token: 't' }));
  await store.refresh();
});
afterEach(() => vi.useRealTimers());

const ids = () => store.list.map(({ id }) => id);
const deleted = () => node.asked.filter(({ route }) => route.startsWith('DELETE')).length;

test('a deleted chat leaves the list at once and the node later', async () => {
  store.delete('chat-new');
  expect(ids()).toEqual(['chat-old']);
  expect(deleted()).toBe(0);
  await vi.advanceTimersByTimeAsync(UNDO_MS);
  expect(deleted()).toBe(1);
});

test('undo brings it back to its place, and the node never hears of it', async () => {
  store.delete('chat-new');
  store.undoDelete('chat-new');
  await vi.advanceTimersByTimeAsync(2 * UNDO_MS);
  expect(ids()).toEqual(['chat-new', 'chat-old']);
  expect(deleted()).toBe(0);
});

test('closing the page does not bring a deleted chat back', () => {
  store.delete('chat-new');
  store.leave();
  expect(deleted()).toBe(1);
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
