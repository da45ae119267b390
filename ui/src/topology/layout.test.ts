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

test('a ring begins on top and goes round clockwise, in order', () => {
  const ids = names(6);
  const { points, size } = layout(ids, CARD, 1200);
  const turns = ids.map((id) => {
    const { x, y } = points[id] ?? { x: NaN, y: NaN };
    return Math.atan2(y - size.height / 2, x - size.width / 2) / Math.PI + 0.5;
  });
  expect(turns[0]).toBeCloseTo(0);
  const clockwise = turns.map((turn) => (turn < -1e-9 ? turn + 2 : turn));
  expect(clockwise).toEqual(clockwise.toSorted((a, b) => a - b));
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
