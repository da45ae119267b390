// A link drawn as a cord: two strands twisted around the line between two cards.
import type { Point, Size } from './layout';

export interface Cord {
  from: Point;
  to: Point;
  middle: Point;
  /** SVG paths, to be drawn in this order: `a`, then `b`, then `aOver`, where `a` lies over `b` again. */
  a: string;
  b: string;
  aOver: string;
}

const HALF_TURN_PX = 13;
const AMPLITUDE_PX = 4.5;

/** The cord between two cards, from edge to edge. */
export function cord(fromCentre: Point, toCentre: Point, card: Size): Cord {
  const from = edge(fromCentre, toCentre, card);
  const to = edge(toCentre, fromCentre, card);
  const length = Math.hypot(to.x - from.x, to.y - from.y);
  const nHalfTurns = Math.max(2, 2 * Math.round(length / HALF_TURN_PX / 2));
  const along = (part: number): Point => ({
    x: from.x + (to.x - from.x) * part,
    y: from.y + (to.y - from.y) * part,
  });
  // Of length `AMPLITUDE_PX`, square to the line. A quadratic curve reaches half its control's height.
  const swing = {
    x: (-(to.y - from.y) / (length || 1)) * AMPLITUDE_PX * 2,
    y: ((to.x - from.x) / (length || 1)) * AMPLITUDE_PX * 2,
  };
  const halfTurn = (idx: number, side: number): string => {
    const control = along((idx + 0.5) / nHalfTurns);
    const end = along((idx + 1) / nHalfTurns);
    const up = idx % 2 === 0 ? side : -side;
    return `Q${pair({ x: control.x + swing.x * up, y: control.y + swing.y * up })} ${pair(end)}`;
  };
  const turns = Array.from({ length: nHalfTurns }, (_, idx) => idx);
  const start = `M${pair(from)}`;
  return {
    from,
    to,
    middle: along(0.5),
    a: start + turns.map((idx) => halfTurn(idx, 1)).join(''),
    b: start + turns.map((idx) => halfTurn(idx, -1)).join(''),
    // A crossing lies at the end of each half turn; at every other one `a` comes out on top.
    aOver: turns
      .filter((idx) => idx % 2 === 0)
      .map((idx) => `M${pair(along(idx / nHalfTurns))}${halfTurn(idx, 1)}`)
      .join(''),
  };
}

/** Where the line from the card's centre towards `other` leaves the card. */
function edge(centre: Point, other: Point, card: Size): Point {
  const dx = other.x - centre.x;
  const dy = other.y - centre.y;
  if (dx === 0 && dy === 0) return centre;
  const scale = Math.min(
    dx === 0 ? Infinity : card.width / 2 / Math.abs(dx),
    dy === 0 ? Infinity : card.height / 2 / Math.abs(dy),
  );
  return { x: centre.x + dx * scale, y: centre.y + dy * scale };
}

const pair = ({ x, y }: Point): string => `${x.toFixed(1)} ${y.toFixed(1)}`;
