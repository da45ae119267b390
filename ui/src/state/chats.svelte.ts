// The history: which conversations there are, and the one on the screen.
import { SvelteMap } from 'svelte/reactivity';
import type { Client } from '../api/client';
import type { Chat, ChatSummary } from '../api/types.gen';
import { newChat } from './chat';
import { ChatSession } from './chat.svelte';

/** How long a deleted chat can be brought back. It leaves the node only after that. */
export const UNDO_MS = 6000;

export class ChatStore {
  readonly #client: Client;
  list = $state.raw<ChatSummary[]>([]);
  current: ChatSession;
  /** The one on the screen, and those that still answer behind it. */
  #open = new SvelteMap<string, ChatSession>();
  #deleting = new SvelteMap<
    string,
    { summary: ChatSummary; timer: ReturnType<typeof setTimeout> }
  >();

  constructor(client: Client) {
    this.#client = client;
    this.current = $state.raw(this.#session(newChat(newId())));
    this.#open.set(this.current.chat.id, this.current);
  }

  async refresh(): Promise<void> {
    const list = await this.#client.chats();
    this.list = list.filter(({ id }) => !this.#deleting.has(id));
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

  /** Gone from the list at once, from the node after `UNDO_MS`. */
  delete(id: string): void {
    const summary = this.list.find((chat) => chat.id === id);
    if (summary === undefined) return;
    this.#open.get(id)?.stop();
    this.#open.delete(id);
    this.list = this.list.filter((chat) => chat.id !== id);
    if (this.current.chat.id === id) this.#show(this.#session(newChat(newId())));
    const timer = setTimeout(() => void this.#reallyDelete(id), UNDO_MS);
    this.#deleting.set(id, { summary, timer });
  }

  undoDelete(id: string): void {
    const deleted = this.#deleting.get(id);
    if (deleted === undefined) return;
    clearTimeout(deleted.timer);
    this.#deleting.delete(id);
    this.list = newestFirst([...this.list, deleted.summary]);
  }

  /** The page is closing: keep half an answer, and do not forget what was deleted. */
  leave(): void {
    for (const session of this.#open.values()) session.leave();
    for (const id of this.#deleting.keys()) void this.#reallyDelete(id);
  }

  async #reallyDelete(id: string): Promise<void> {
    this.#deleting.delete(id);
    await this.#client.deleteChat(id).catch(() => this.refresh());
  }

  #session = (chat: Chat): ChatSession => new ChatSession(this.#client, chat, this.#saved);

  #show(session: ChatSession): void {
    if (this.current.answer === null) this.#open.delete(this.current.chat.id);
    this.#open.set(session.chat.id, session);
    this.current = session;
  }

  #saved = (chat: Chat): void => {
    // Saved by an answer that ended after its chat was deleted.
    if (this.#deleting.has(chat.id)) return;
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
