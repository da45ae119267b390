import { expect, test } from 'vitest';
import { deploymentView, GIB, nodeView } from '../testing/cluster';
import { freeBytes, memoryParts, ranksOn } from './memory';

const memory = nodeView('mini').memory;
if (memory === null) throw new Error('the fixture has memory');

test('the pieces are the whole bar, in order, without a gap', () => {
  const parts = memoryParts(memory);
  expect(parts.map(({ use, bytes }) => [use, bytes / GIB])).toEqual([
    ['weights', 1],
    ['kv', 0.5],
    ['reserved', 0.5],
    ['others', 4],
    ['free', 10],
  ]);
  let end = 0;
  for (const { start, length } of parts) {
    expect(start).toBeCloseTo(end);
    end = start + length;
  }
  expect(end).toBeCloseTo(1);
});

test('figures that do not add up never draw beyond the bar', () => {
  const parts = memoryParts({ ...memory, usedByOthersBytes: 99 * GIB });
  expect(parts.every(({ length }) => length >= 0)).toBe(true);
  expect(Math.max(...parts.map(({ start, length }) => start + length))).toBeCloseTo(1);
  expect(freeBytes({ ...memory, usedByOthersBytes: 99 * GIB })).toBe(0);
});

test('a failed deployment holds nothing', () => {
  expect(ranksOn('id-of-mini', [deploymentView(['studio', 'mini'])])).toHaveLength(1);
  expect(ranksOn('id-of-mini', [deploymentView(['studio', 'mini'], 'failed')])).toEqual([]);
});
