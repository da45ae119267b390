// A conversation as a value: every edit gives a new one. Pure; `chat.svelte.ts` streams and saves.
import type { CompletionMessage } from '../api/completion';
import type { AnswerFacts, Chat, ChatMessageView } from '../api/types.gen';

/** How an answer ended when the reader stopped it; also what the node stores. */
export const STOPPED_BY_YOU = 'stopped by you';
/** How it ended when the page was closed in mid-answer. */
export const PAGE_CLOSED = 'the page was closed';

const TITLE_CHARS_MAX = 48;

export const NEW_CHAT_TITLE = 'New chat';

export function newChat(id: string): Chat {
  return { id, title: NEW_CHAT_TITLE, model: null, messages: [] };
}

/** With the reader's next message; the first one names the chat. */
export function asked(chat: Chat, text: string): Chat {
  const message: ChatMessageView = { role: 'user', text, facts: null };
  const title =
    chat.messages.length === 0 && chat.title === NEW_CHAT_TITLE ? titleOf(text) : chat.title;
  return { ...chat, title, messages: [...chat.messages, message] };
}

/** With another text in the reader's message at `idx`, and nothing after it. */
export function edited(chat: Chat, idx: number, text: string): Chat {
  const messages = chat.messages.slice(0, idx);
  // A chat that was named after its first question is named after the new one.
  const isNamedByIt = idx === 0 && chat.title === titleOf(chat.messages[0]?.text ?? '');
  return asked({ ...chat, messages, title: isNamedByIt ? NEW_CHAT_TITLE : chat.title }, text);
}

/** Without the last answer, ready to be answered again. */
export function withoutLastAnswer(chat: Chat): Chat {
  return chat.messages.at(-1)?.role === 'assistant'
    ? { ...chat, messages: chat.messages.slice(0, -1) }
    : chat;
}

export function answered(chat: Chat, text: string, facts: AnswerFacts): Chat {
  const message: ChatMessageView = { role: 'assistant', text, facts };
  return { ...chat, model: facts.model, messages: [...chat.messages, message] };
}

/** What the model is given. Answers without text (an error came first) would only confuse it. */
export function prompt(chat: Chat): CompletionMessage[] {
  return chat.messages
    .filter(({ role, text }) => role !== 'assistant' || text !== '')
    .map(({ role, text }) => ({ role, content: text }));
}

/** The first line, cut at a word. */
export function titleOf(text: string): string {
  const line = text.trim().split('\n', 1)[0]?.trim() ?? '';
  if (line.length <= TITLE_CHARS_MAX) return line || NEW_CHAT_TITLE;
  const cut = line.slice(0, TITLE_CHARS_MAX);
  const lastSpace = cut.lastIndexOf(' ');
  return `${lastSpace > TITLE_CHARS_MAX / 2 ? cut.slice(0, lastSpace) : cut}…`;
}

/** The model a chat would be answered by: the one chosen if it still serves, else the first that does. */
export function modelFor(chosen: string | null, served: readonly string[]): string | null {
  return chosen !== null && served.includes(chosen) ? chosen : (served[0] ?? null);
}

/** How an answer ended, in words for the line under it; `null` when it simply came to its end. */
export function endedNote(facts: AnswerFacts): string | null {
  switch (facts.ended) {
    case 'stop':
      return null;
    case 'length':
      return 'cut: the context is full';
    default:
      return facts.ended;
  }
}
