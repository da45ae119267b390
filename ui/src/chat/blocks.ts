// Splits markdown that is still growing into blocks, so that what is finished is never parsed or drawn again.
import { marked, type Token, type Tokens } from 'marked';

export type Block =
  | { id: number; kind: 'text'; token: Token }
  /** `closed`: its last fence has come, so it may be coloured. */
  | { id: number; kind: 'code'; code: string; lang: string; closed: boolean };

export interface Blocks {
  /** Finished: the same objects from one call to the next. */
  done: readonly Block[];
  /** May still change with the next piece of text. */
  tail: readonly Block[];
  /** The text these blocks were made of, and how much of it is in `done`. */
  text: string;
  doneLength: number;
}

export const NO_BLOCKS: Blocks = { done: [], tail: [], text: '', doneLength: 0 };

/** The blocks of `text`. Of a text that grew from `before`'s only the tail is parsed. */
export function extend(before: Blocks, text: string): Blocks {
  const base = text.startsWith(before.text) ? before : NO_BLOCKS;
  const tokens = marked.lexer(text.slice(base.doneLength), { gfm: true });
  const nDone = finishedCount(tokens);

  const done = [...base.done];
  let doneLength = base.doneLength;
  for (const token of tokens.slice(0, nDone)) {
    doneLength += token.raw.length;
    if (token.type !== 'space') done.push(block(done.length, token, true));
  }
  const tail = tokens
    .slice(nDone)
    .filter(({ type }) => type !== 'space')
    .map((token, idx) => block(done.length + idx, token, false));
  return { done, tail, text, doneLength };
}

/**
 * How many tokens no further text can change: all before the last one, which may still grow.
 * A list before a lone `2` or `-` is held back too, since that may become its next item.
 */
function finishedCount(tokens: readonly Token[]): number {
  const solid = tokens.flatMap(({ type }, idx) => (type === 'space' ? [] : [idx]));
  const last = solid.at(-1) ?? 0;
  const beforeLast = solid.at(-2);
  const mayJoinList = /^ {0,3}(\d{1,9}[.)]?|[-*+])?\s*$/.test(tokens[last]?.raw ?? '');
  return mayJoinList && beforeLast !== undefined ? beforeLast : last;
}

function block(id: number, token: Token, finished: boolean): Block {
  if (token.type !== 'code') return { id, kind: 'text', token };
  const { text, lang, raw } = token as Tokens.Code;
  const closed = finished || isFenceClosed(raw);
  return { id, kind: 'code', code: text, lang: (lang ?? '').split(/\s/, 1)[0] ?? '', closed };
}

/** Whether a fenced block ends with the fence it began with. */
function isFenceClosed(raw: string): boolean {
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(raw)?.[1];
  if (fence === undefined) return false;
  const lines = raw.trimEnd().split('\n');
  const last = lines.at(-1)?.trim() ?? '';
  return lines.length > 1 && last.startsWith(fence) && /^(`+|~+)$/.test(last);
}
