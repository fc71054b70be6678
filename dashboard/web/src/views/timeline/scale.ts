// Time as a place from 0 to 1. Hours in which nothing but waiting happened would press everything else into a few
// pixels, so such pauses are drawn short, and marked.

import type { Span } from "@/views/timeline/spans";

export interface Pause {
  readonly from: number;
  readonly to: number;
}

export interface Scale {
  readonly begin: number;
  readonly end: number;
  readonly pauses: readonly Pause[];
  /** Where a time is, from 0 to 1. */
  at(time: number): number;
}

/** What is work, and not only waiting for it. */
const WORK = new Set(["model", "tool"]);

/** A pause is drawn as if it took this part of all the work; what is shorter is drawn as it is. */
const PAUSE_SHARE = 0.06;
const PAUSE_LEAST_MS = 500;

export function scaleOf(spans: readonly Span[], shorten: boolean): Scale {
  const begin = spans.reduce((least, { start }) => Math.min(least, start), Number.POSITIVE_INFINITY);
  const end = spans.reduce((most, span) => Math.max(most, span.end), Number.NEGATIVE_INFINITY);
  if (!spans.length) return { begin: 0, end: 0, pauses: [], at: () => 0 };
  const busy = merged(
    spans.filter(({ node }) => WORK.has(node.kind) && node.status !== "waiting" && node.status !== "lost"),
  );
  const worked = busy.reduce((sum, { from, to }) => sum + to - from, 0);
  const short = Math.max(PAUSE_LEAST_MS, worked * PAUSE_SHARE);
  const pauses = shorten ? between(busy, begin, end).filter(({ from, to }) => to - from > short) : [];
  return { begin, end, pauses, at: placing(begin, end, pauses, short) };
}

function merged(spans: readonly Span[]): Pause[] {
  const sorted = [...spans].sort((a, b) => a.start - b.start);
  const made: { from: number; to: number }[] = [];
  for (const { start, end } of sorted) {
    const last = made.at(-1);
    if (last && start <= last.to) last.to = Math.max(last.to, end);
    else made.push({ from: start, to: end });
  }
  return made;
}

function between(busy: readonly Pause[], begin: number, end: number): Pause[] {
  const made: Pause[] = [];
  let from = begin;
  for (const each of busy) {
    made.push({ from, to: each.from });
    from = each.to;
  }
  return [...made, { from, to: end }];
}

function placing(begin: number, end: number, pauses: readonly Pause[], short: number): (time: number) => number {
  const length = (time: number) => {
    let passed = time - begin;
    for (const { from, to } of pauses) {
      if (time <= from) break;
      const inside = Math.min(time, to) - from;
      passed -= inside * (1 - short / (to - from));
    }
    return passed;
  };
  const whole = length(end) || 1;
  return (time) => length(Math.min(Math.max(time, begin), end)) / whole;
}

/** Round times for the axis: so many at most, none in a pause. */
export function marks(scale: Scale, most: number): number[] {
  const shown = scale.end - scale.begin - scale.pauses.reduce((sum, { from, to }) => sum + to - from, 0);
  const step = roundStep(shown / most);
  const made: number[] = [];
  let last = Number.NEGATIVE_INFINITY;
  for (let passed = 0; passed <= scale.end - scale.begin; passed += step) {
    const time = scale.begin + passed;
    const pause = scale.pauses.find(({ from, to }) => time > from && time < to);
    if (pause) {
      passed += Math.floor((pause.to - time) / step) * step;
      continue;
    }
    const place = scale.at(time);
    if (place - last < 0.7 / most) continue;
    made.push(time);
    last = place;
  }
  return made;
}

function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const factor = [1, 2, 5, 10].find((each) => each * power >= least) ?? 10;
  return factor * power;
}
