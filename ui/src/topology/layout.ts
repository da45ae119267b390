// Where the nodes stand in the drawing. Pure: the same nodes and the same room give the same places.
import type { ClusterView } from '../api/types.gen';

export interface Point {
  x: number;
  y: number;
}

export interface Size {
  width: number;
  height: number;
}

export interface Layout {
  /** The room the drawing takes; never wider than it was given. */
  size: Size;
  /** The centre of each node's card. */
  points: Record<string, Point>;
}

/** Room between two cards for a cord and its label. */
const GAP_PX = { row: 150, column: 92, ring: 36 } as const;
const MARGIN_PX = 12;
/** A pair would look cramped in a strip as high as its cards. */
const ROW_MARGIN_PX = 44;
/** Farther apart, two cards no longer look like a pair. */
const ROW_SPAN_MAX_PX = 560;
const RING_RADIUS_MAX_PX = 400;

/** `ids` in ring order. Side by side or on a ring where there is room, one below the other where there is not. */
export function layout(ids: readonly string[], card: Size, width: number): Layout {
  const room = width - 2 * MARGIN_PX;
  if (ids.length === 1) return column(ids, card, width);
  if (room < 2 * card.width + GAP_PX.row) return column(ids, card, width);
  return ids.length === 2 ? row(ids, card, width) : ring(ids, card, width);
}

function column(ids: readonly string[], card: Size, width: number): Layout {
  const step = card.height + GAP_PX.column;
  const top = MARGIN_PX + card.height / 2;
  return {
    size: { width, height: Math.max(0, ids.length - 1) * step + card.height + 2 * MARGIN_PX },
    points: Object.fromEntries(ids.map((id, idx) => [id, { x: width / 2, y: top + idx * step }])),
  };
}

function row(ids: readonly string[], card: Size, width: number): Layout {
  const span = Math.min(ROW_SPAN_MAX_PX, width - card.width - 2 * MARGIN_PX);
  const height = card.height + 2 * ROW_MARGIN_PX;
  const x = (idx: number) => width / 2 + (idx - 0.5) * span;
  return {
    size: { width, height },
    points: Object.fromEntries(ids.map((id, idx) => [id, { x: x(idx), y: height / 2 }])),
  };
}

/** An ellipse, the first node on top; made taller until no two cards touch, or a ladder where none is tall enough. */
function ring(ids: readonly string[], card: Size, width: number): Layout {
  const radiusX = Math.min(RING_RADIUS_MAX_PX, (width - card.width) / 2 - MARGIN_PX);
  const tallest = ids.length * card.height;
  for (let radiusY = card.height; radiusY < tallest; radiusY += 12) {
    const angles = evenAngles(ids.length, radiusX, radiusY);
    const places = angles.map((angle) => ({
      x: width / 2 + radiusX * Math.cos(angle),
      y: radiusY * Math.sin(angle),
    }));
    if (!placesTouch(places, card)) {
      const top = Math.min(...places.map(({ y }) => y)) - card.height / 2 - MARGIN_PX;
      const bottom = Math.max(...places.map(({ y }) => y)) + card.height / 2 + MARGIN_PX;
      return {
        size: { width, height: bottom - top },
        points: Object.fromEntries(
          ids.map((id, idx) => {
            const { x, y } = places[idx] as Point;
            return [id, { x, y: y - top }];
          }),
        ),
      };
    }
  }
  return ladder(ids, card, width);
}

/** Two columns, down on the right and up again on the left, so that neighbours stay neighbours. */
function ladder(ids: readonly string[], card: Size, width: number): Layout {
  const nRight = Math.ceil(ids.length / 2);
  const step = card.height + GAP_PX.ring;
  const side = Math.min(ROW_SPAN_MAX_PX, width - card.width - 2 * MARGIN_PX) / 2;
  const top = MARGIN_PX + card.height / 2;
  const place = (idx: number): Point =>
    idx < nRight
      ? { x: width / 2 + side, y: top + idx * step }
      : { x: width / 2 - side, y: top + (2 * nRight - 1 - idx) * step };
  return {
    size: { width, height: (nRight - 1) * step + card.height + 2 * MARGIN_PX },
    points: Object.fromEntries(ids.map((id, idx) => [id, place(idx)])),
  };
}

/** Angles that cut the ellipse into arcs of equal length, beginning at the top. */
function evenAngles(n: number, radiusX: number, radiusY: number): number[] {
  const STEPS = 720;
  const lengths = [0];
  for (let step = 1; step <= STEPS; step += 1) {
    const angle = (step / STEPS) * 2 * Math.PI;
    const speed = Math.hypot(radiusX * Math.cos(angle), radiusY * Math.sin(angle));
    lengths.push((lengths[step - 1] ?? 0) + speed);
  }
  const whole = lengths[STEPS] ?? 0;
  return Array.from({ length: n }, (_, idx) => {
    const step = lengths.findIndex((length) => length >= (idx / n) * whole);
    return (step / STEPS) * 2 * Math.PI - Math.PI / 2;
  });
}

function placesTouch(places: readonly Point[], card: Size): boolean {
  return places.some((a, idx) =>
    places
      .slice(idx + 1)
      .some(
        (b) =>
          Math.abs(a.x - b.x) < card.width + GAP_PX.ring &&
          Math.abs(a.y - b.y) < card.height + GAP_PX.ring,
      ),
  );
}

/** Nodes in the order of the first living plan's ranks, so that its cords run round; then the others. */
export function ringOrder(view: ClusterView): string[] {
  const plan = view.deployments.find(({ status }) => status !== 'failed');
  const known = new Set(view.nodes.map(({ id }) => id));
  const ranked = (plan?.ranks ?? []).map(({ nodeId }) => nodeId).filter((id) => known.has(id));
  return [...new Set([...ranked, ...known])];
}
