import { expect, test } from 'vitest';
import { cord } from './cord';

const CARD = { width: 200, height: 100 };
const ends = (path: string) => {
  const numbers = path.match(/-?\d+(\.\d+)?/g)?.map(Number) ?? [];
  return [numbers.slice(0, 2), numbers.slice(-2)];
};

test.each([
  ['sideways', { x: 500, y: 0 }, { x: 100, y: 0 }, { x: 400, y: 0 }],
  ['down', { x: 0, y: 400 }, { x: 0, y: 50 }, { x: 0, y: 350 }],
  ['at an angle', { x: 400, y: 400 }, { x: 50, y: 50 }, { x: 350, y: 350 }],
])('a cord %s runs from edge to edge, both strands alike', (_name, to, from, end) => {
  const drawn = cord({ x: 0, y: 0 }, to, CARD);
  expect(drawn.from).toEqual(from);
  expect(drawn.to).toEqual(end);
  for (const strand of [drawn.a, drawn.b]) {
    expect(ends(strand)).toEqual([
      [from.x, from.y],
      [end.x, end.y],
    ]);
  }
});

test('two cards in one place give a cord without length, not a broken path', () => {
  const { a } = cord({ x: 5, y: 5 }, { x: 5, y: 5 }, CARD);
  expect(a).not.toMatch(/NaN|Infinity/);
});
