// A streamed answer of `POST /v1/chat/completions`: the OpenAI dialect, and Macramé's `timings` in the last chunk.
import { ApiError } from './client';
import type { ErrorView } from './types.gen';

export interface CompletionMessage {
  role: 'system' | 'user' | 'assistant';
  content: string;
}

export interface CompletionRequest {
  model: string;
  messages: CompletionMessage[];
  temperature: number;
  top_p: number;
  stream: true;
  stream_options: { include_usage: true };
}

/** The dialect's own default of 1 makes small models ramble; these are what chat windows commonly use. */
const SAMPLING = { temperature: 0.6, top_p: 0.9 } as const;

export function completionRequest(model: string, messages: CompletionMessage[]): CompletionRequest {
  return { model, messages, ...SAMPLING, stream: true, stream_options: { include_usage: true } };
}

/** What one event of the stream says. */
export type AnswerPart =
  | { kind: 'text'; text: string }
  | { kind: 'finish'; reason: string }
  | { kind: 'usage'; promptTokens: number; completionTokens: number; timings: Timings | null }
  | { kind: 'done' };

export interface Timings {
  firstTokenMs: number;
  tokensPerSec: number;
}

interface Chunk {
  error?: ErrorView;
  choices?: { delta?: { content?: string | null }; finish_reason?: string | null }[];
  usage?: { prompt_tokens: number; completion_tokens: number } | null;
  timings?: { prompt_ms: number; first_token_ms: number; tokens_per_sec: number } | null;
}

/** Throws the node's error where the stream carries one in place of a chunk. */
export function parseChunk(data: string): AnswerPart[] {
  if (data === '[DONE]') return [{ kind: 'done' }];
  const chunk = JSON.parse(data) as Chunk;
  if (chunk.error) throw new ApiError({ ...chunk.error, hints: chunk.error.hints ?? [] });
  const parts: AnswerPart[] = [];
  for (const choice of chunk.choices ?? []) {
    const text = choice.delta?.content;
    if (text) parts.push({ kind: 'text', text });
    if (choice.finish_reason) parts.push({ kind: 'finish', reason: choice.finish_reason });
  }
  if (chunk.usage) {
    const { timings } = chunk;
    parts.push({
      kind: 'usage',
      promptTokens: chunk.usage.prompt_tokens,
      completionTokens: chunk.usage.completion_tokens,
      timings: timings
        ? { firstTokenMs: timings.first_token_ms, tokensPerSec: timings.tokens_per_sec }
        : null,
    });
  }
  return parts;
}

/** An answer that ends without `[DONE]` was cut off, and must never pass for a whole one. */
export async function* answerParts(events: AsyncIterable<string>): AsyncGenerator<AnswerPart> {
  for await (const data of events) {
    for (const part of parseChunk(data)) {
      if (part.kind === 'done') return;
      yield part;
    }
  }
  throw new ApiError({
    code: 'stream_cut',
    message: 'the connection to the node ended in mid-answer',
    hints: ['try again; if it happens again, look at the Cluster view for a node that left'],
  });
}
