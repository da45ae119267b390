import { expect, test } from 'vitest';
import { type Block, type Blocks, extend, NO_BLOCKS } from './blocks';

const TEXT = [
  '# Title',
  'A paragraph with **bold** text\nover two lines.',
  '- one\n- two\n\n  still two\n- three',
  '```rust\nfn main() {\n\n    let x = 1;\n}\n```',
  '1. first\n2. second\n\n3. third',
  '| a | b |\n|---|---|\n| 1 | 2 |',
  '> quoted\n> text',
  '~~~\nplain\n~~~',
  'The end.',
].join('\n\n');

const all = ({ done, tail }: Blocks): Block[] => [...done, ...tail];
const shown = (blocks: Blocks) =>
  all(blocks).map((block) =>
    block.kind === 'code'
      ? ['code', block.lang, block.code]
      : [block.token.type, block.token.raw.trim()],
  );

test('text that grows by any piece ends as the same blocks as the whole', () => {
  const whole = shown(extend(NO_BLOCKS, TEXT));
  for (const piece of [1, 2, 3, 7, 20, 64]) {
    let blocks = NO_BLOCKS;
    for (let end = piece; end < TEXT.length + piece; end += piece) {
      blocks = extend(blocks, TEXT.slice(0, end));
    }
    expect(shown(blocks), `${piece} characters a time`).toEqual(whole);
  }
});

test('finished blocks stay the same objects', () => {
  const before = extend(NO_BLOCKS, 'One.\n\nTwo.\n\nThr');
  const after = extend(before, 'One.\n\nTwo.\n\nThree.');
  expect(after.done[0]).toBe(before.done[0]);
  expect(after.done[1]).toBe(before.done[1]);
});

test('only the tail is left to parse', () => {
  const long = 'A paragraph.\n\n'.repeat(200);
  const blocks = extend(NO_BLOCKS, `${long}tail`);
  expect(blocks.doneLength).toBe(long.length);
});

test('every block keeps its id', () => {
  let blocks = NO_BLOCKS;
  for (let end = 1; end <= TEXT.length; end += 1) {
    blocks = extend(blocks, TEXT.slice(0, end));
    expect(all(blocks).map(({ id }) => id)).toEqual(all(blocks).map((_, idx) => idx));
  }
});

test('a code block is closed by its own fence only', () => {
  const closed = (text: string) =>
    all(extend(NO_BLOCKS, text)).map((block) => block.kind === 'code' && block.closed);
  expect(closed('```js\nlet a')).toEqual([false]);
  expect(closed('```js')).toEqual([false]);
  expect(closed('````md\n```js\n```')).toEqual([false]);
  expect(closed('```js\nlet a\n```')).toEqual([true]);
  expect(closed('~~~\n```\n~~~\n')).toEqual([true]);
});

test('another text than the one before starts anew', () => {
  const before = extend(NO_BLOCKS, 'One.\n\nTwo.');
  expect(shown(extend(before, 'Other.'))).toEqual([['paragraph', 'Other.']]);
});
