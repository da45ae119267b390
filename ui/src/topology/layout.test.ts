import { expect, test } from 'vitest';
import { clusterView, deploymentView, nodeView } from '../testing/cluster';
import { layout, type Layout, ringOrder, type Size } from './layout';

const CARD: Size = { width: 252, height: 132 };
const names = (n: number) => Array.from({ length: n }, (_, idx) => `n${idx}`);
const WIDTHS = [276, 340, 420, 700, 900, 1400];

function overlaps({ points }: Layout): string[] {
  const places = Object.entries(points);
  return places.flatMap(([a, p], idx) =>
    places
      .slice(idx + 1)
      .filter(([, q]) => Math.abs(p.x - q.x) < CARD.width && Math.abs(p.y - q.y) < CARD.height)
      .map(([b]) => `${a} ${b}`),
  );
}

test('no two cards overlap and none leaves the drawing, up to 16 nodes at any width', () => {
  for (const width of WIDTHS) {
    for (let n = 1; n <= 16; n += 1) {
      const drawn = layout(names(n), CARD, width);
      expect(overlaps(drawn), `${n} nodes in ${width} px`).toEqual([]);
      for (const { x, y } of Object.values(drawn.points)) {
        expect(x - CARD.width / 2).toBeGreaterThanOrEqual(0);
        expect(x + CARD.width / 2).toBeLessThanOrEqual(width);
        expect(y - CARD.height / 2).toBeGreaterThanOrEqual(0);
        expect(y + CARD.height / 2).toBeLessThanOrEqual(drawn.size.height);
      }
    }
  }
});

test('one node stands in the middle', () => {
  expect(layout(['a'], CARD, 900).points['a']?.x).toBe(450);
});

test('two nodes stand side by side where there is room, else one below the other', () => {
  const wide = layout(['a', 'b'], CARD, 900).points;
  expect(wide['a']?.y).toBe(wide['b']?.y);
  const narrow = layout(['a', 'b'], CARD, 400).points;
  expect(narrow['a']?.x).toBe(narrow['b']?.x);
});

test('the first of a ring stands on top, and neighbours in order are neighbours in space', () => {
  const ids = names(6);
  const { points } = layout(ids, CARD, 1200);
  const at = (idx: number) => points[ids[idx % 6] as string] ?? { x: NaN, y: NaN };
  expect(Math.min(...ids.map((_, idx) => at(idx).y))).toBe(at(0).y);
  const distance = (a: number, b: number) => Math.hypot(at(a).x - at(b).x, at(a).y - at(b).y);
  expect(distance(0, 1)).toBeLessThan(distance(0, 3));
});

test('the same nodes and room give the same drawing', () => {
  expect(layout(names(5), CARD, 900)).toEqual(layout(names(5), CARD, 900));
});

test('nodes go round in the order of the living plan', () => {
  const view = clusterView({
    nodes: ['studio', 'den', 'mini'].map((name) => nodeView(name)),
    deployments: [
      deploymentView(['studio', 'den', 'mini'], 'failed'),
      deploymentView(['mini', 'studio'], 'serving', { id: 'd2' }),
    ],
  });
  expect(ringOrder(view)).toEqual(['id-of-mini', 'id-of-studio', 'id-of-den']);
});
