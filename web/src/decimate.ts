/** Thinning a long series for drawing: largest triangle, three buckets (Steinarsson 2013). */
import type { Point } from "./report";

type Drawn = { x: number; y: number; at: number };

/** At most about `limit` of the points, first and last of each stretch between gaps among them. */
export function decimate(points: Point[], limit: number): Point[] {
  if (points.length <= limit) return points;
  const kept: Point[] = [];
  for (const stretch of stretches(points)) {
    const share = Math.max(2, Math.floor((limit * stretch.length) / points.length));
    if (kept.length > 0) kept.push([stretch[0]!.x, null]);
    for (const at of largestTriangles(stretch, share)) kept.push(points[at]!);
  }
  return kept;
}

/** The runs of points that have a y. */
function stretches(points: Point[]): Drawn[][] {
  const all: Drawn[][] = [];
  let open: Drawn[] = [];
  points.forEach(([x, y], at) => {
    if (y !== null) open.push({ x, y, at });
    else if (open.length > 0) {
      all.push(open);
      open = [];
    }
  });
  if (open.length > 0) all.push(open);
  return all;
}

function largestTriangles(points: Drawn[], limit: number): number[] {
  const last = points.length - 1;
  if (points.length <= limit || limit < 3) {
    return points.length <= limit ? points.map((p) => p.at) : [points[0]!.at, points[last]!.at];
  }
  const kept = [points[0]!.at];
  const every = (points.length - 2) / (limit - 2);
  let chosen = 0;
  for (let bucket = 0; bucket < limit - 2; bucket++) {
    const from = Math.floor(bucket * every) + 1;
    const to = Math.min(Math.floor((bucket + 1) * every) + 1, last);
    const next = mean(points, to, Math.min(Math.floor((bucket + 2) * every) + 1, points.length));
    chosen = farthest(points, from, to, points[chosen]!, next);
    kept.push(points[chosen]!.at);
  }
  kept.push(points[last]!.at);
  return kept;
}

function mean(points: Drawn[], from: number, to: number): { x: number; y: number } {
  let [x, y] = [0, 0];
  for (let i = from; i < to; i++) {
    x += points[i]!.x;
    y += points[i]!.y;
  }
  const count = Math.max(1, to - from);
  return { x: x / count, y: y / count };
}

function farthest(points: Drawn[], from: number, to: number, a: Drawn, c: { x: number; y: number }): number {
  let best = from;
  let bestArea = -1;
  for (let i = from; i < to; i++) {
    const b = points[i]!;
    const area = Math.abs((a.x - c.x) * (b.y - a.y) - (a.x - b.x) * (c.y - a.y));
    if (area > bestArea) [best, bestArea] = [i, area];
  }
  return best;
}
