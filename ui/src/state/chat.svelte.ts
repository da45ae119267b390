// One open conversation: asks, streams the answer, and saves what came of it.
import { ApiError, type Client } from '../api/client';
import { type AnswerPart, answerParts, completionRequest } from '../api/completion';
import type { AnswerFacts, Chat } from '../api/types.gen';
import {
  answered,
  asked,
  edited,
  PAGE_CLOSED,
  prompt,
  STOPPED_BY_YOU,
  withoutLastAnswer,
} from './chat';

/** An answer on its way. */
class Answer {
  readonly model: string;
  text = $state('');
  readonly stop = new AbortController();
  readonly #askedAt = performance.now();
  #firstTokenAt: number | null = null;
  #lastTokenAt: number | null = null;
  // Counted here until the node says it better in its last chunk, which a stopped answer never gets.
  #nTokens = $state(0);
  #finish = 'stop';
  #usage: Extract<AnswerPart, { kind: 'usage' }> | null = null;

  constructor(model: string) {
    this.model = model;
  }

  get nTokens(): number {
    return this.#nTokens;
  }

  take(part: AnswerPart): void {
    switch (part.kind) {
      case 'text':
        this.#lastTokenAt = performance.now();
        this.#firstTokenAt ??= this.#lastTokenAt;
        this.#nTokens += 1;
        this.text += part.text;
        break;
      case 'finish':
        this.#finish = part.reason;
        break;
      case 'usage':
        this.#usage = part;
        break;
      case 'done':
        break;
    }
  }

  facts(ended: string = this.#finish): AnswerFacts {
    const usage = this.#usage;
    const firstAt = this.#firstTokenAt ?? this.#askedAt;
    const decodeSecs = ((this.#lastTokenAt ?? firstAt) - firstAt) / 1000;
    return {
      model: this.model,
      promptTokens: usage?.promptTokens ?? 0,
      completionTokens: usage?.completionTokens ?? this.#nTokens,
      firstTokenMs: usage?.timings?.firstTokenMs ?? firstAt - this.#askedAt,
      tokensPerSec:
        usage?.timings?.tokensPerSec ?? (decodeSecs > 0 ? (this.#nTokens - 1) / decodeSecs : 0),
      ended,
    };
  }
}

export class ChatSession {
  readonly #client: Client;
  readonly #onsaved: (chat: Chat) => void;
  #chat: Chat;
  answer = $state.raw<Answer | null>(null);
  /** Why the last try failed; kept out of the chat, since trying again may clear it. */
  failure = $state.raw<ApiError | null>(null);

  constructor(client: Client, chat: Chat, onsaved: (chat: Chat) => void) {
    this.#client = client;
    this.#chat = $state.raw(chat);
    this.#onsaved = onsaved;
  }

  get chat(): Chat {
    return this.#chat;
  }

  ask(text: string, model: string): Promise<void> {
    return this.#answer(asked(this.#chat, text), model);
  }

  edit(idx: number, text: string, model: string): Promise<void> {
    return this.#answer(edited(this.#chat, idx, text), model);
  }

  /** Answers the reader's last message again; also the way on after an error. */
  regenerate(model: string): Promise<void> {
    return this.#answer(withoutLastAnswer(this.#chat), model);
  }

  stop(): void {
    this.answer?.stop.abort();
  }

  async rename(title: string): Promise<void> {
    this.#chat = { ...this.#chat, title };
    await this.#save();
  }

  /** Keeps what there is of an answer when the page goes away. */
  leave(): void {
    const answer = this.answer;
    if (answer === null) return;
    answer.stop.abort();
    this.#client.saveChatAtExit(answered(this.#chat, answer.text, answer.facts(PAGE_CLOSED)));
  }

  async #answer(chat: Chat, model: string): Promise<void> {
    if (this.answer !== null) return;
    this.#chat = { ...chat, model };
    this.failure = null;
    const answer = new Answer(model);
    this.answer = answer;
    // Saved before the answer is whole, so that a crash loses no question.
    void this.#save();

    let ended: string | undefined;
    try {
      const { signal } = answer.stop;
      const events = this.#client.completion(completionRequest(model, prompt(chat)), signal);
      for await (const part of answerParts(events)) answer.take(part);
    } catch (thrown) {
      if (answer.stop.signal.aborted) {
        ended = STOPPED_BY_YOU;
      } else {
        this.failure = ApiError.from(thrown);
        ended = this.failure.message;
      }
    }
    if (answer.text !== '' || ended === undefined) {
      this.#chat = answered(this.#chat, answer.text, answer.facts(ended));
    }
    this.answer = null;
    await this.#save();
  }

  async #save(): Promise<void> {
    const chat = this.#chat;
    try {
      await this.#client.saveChat(chat);
      this.#onsaved(chat);
    } catch (thrown) {
      this.failure ??= ApiError.from(thrown);
    }
  }
}
