// The history: which conversations there are, and the one on the screen.
import { SvelteMap, SvelteSet } from 'svelte/reactivity';
import type { Client } from '../api/client';
import type { Chat, ChatSummary } from '../api/types.gen';
import { newChat } from './chat';
import { ChatSession } from './chat.svelte';

export class ChatStore {
  readonly #client: Client;
  list = $state.raw<ChatSummary[]>([]);
  current: ChatSession;
  /** The one on the screen, and those that still answer behind it. */
  #open = new SvelteMap<string, ChatSession>();
  /** An answer that is stopped by deleting its chat still ends, and must not bring it back to the list. */
  #deleted = new SvelteSet<string>();

  constructor(client: Client) {
    this.#client = client;
    this.current = $state.raw(this.#session(newChat(newId())));
    this.#open.set(this.current.chat.id, this.current);
  }

  async refresh(): Promise<void> {
    this.list = await this.#client.chats();
  }

  startNew(): void {
    if (this.current.chat.messages.length === 0) return;
    this.#show(this.#session(newChat(newId())));
  }

  async open(id: string): Promise<void> {
    if (id === this.current.chat.id) return;
    const session = this.#open.get(id);
    this.#show(session?.answer ? session : this.#session(await this.#client.chat(id)));
  }

  answering(id: string): boolean {
    const session = this.#open.get(id);
    return session !== undefined && session.answer !== null;
  }

  async rename(id: string, title: string): Promise<void> {
    const session = this.#open.get(id) ?? this.#session(await this.#client.chat(id));
    await session.rename(title);
  }

  /** The node keeps a deleted chat for a while: see `undoDelete`. */
  async delete(id: string): Promise<void> {
    this.#deleted.add(id);
    this.#open.get(id)?.stop();
    this.#open.delete(id);
    this.list = this.list.filter((chat) => chat.id !== id);
    if (this.current.chat.id === id) this.#show(this.#session(newChat(newId())));
    await this.#client.deleteChat(id);
  }

  async undoDelete(id: string): Promise<void> {
    await this.#client.restoreChat(id);
    this.#deleted.delete(id);
    await this.refresh();
  }

  /** The page is closing: keeps what there is of an answer. */
  leave(): void {
    for (const session of this.#open.values()) session.leave();
  }

  #session = (chat: Chat): ChatSession => new ChatSession(this.#client, chat, this.#saved);

  #show(session: ChatSession): void {
    if (this.current.answer === null) this.#open.delete(this.current.chat.id);
    this.#open.set(session.chat.id, session);
    this.current = session;
  }

  #saved = (chat: Chat): void => {
    if (this.#deleted.has(chat.id)) return;
    const summary: ChatSummary = {
      id: chat.id,
      title: chat.title,
      updatedAtMs: Date.now(),
      nMessages: chat.messages.length,
    };
    this.list = newestFirst([...this.list.filter(({ id }) => id !== chat.id), summary]);
  };
}

function newestFirst(list: ChatSummary[]): ChatSummary[] {
  return list.toSorted((a, b) => b.updatedAtMs - a.updatedAtMs);
}

/** 128 random bits. Not `crypto.randomUUID`, which a page over plain HTTP from another machine lacks. */
function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
