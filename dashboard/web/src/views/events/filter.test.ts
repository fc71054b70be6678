import { expect, test } from "vitest";
import { Recording } from "@/testing/recording";
import { AREAS, matching, summary } from "@/views/events/filter";

const { events } = new Recording().begin().step(1).call("a").output("a").step(2).end();

test("without a filter every event is there", () => {
  expect(matching(events, { text: " ", without: new Set() })).toBe(events);
});

test("an event must hold every word, in its number, type or data", () => {
  expect(matching(events, { text: "TOOL.output noted", without: new Set() }).map(({ type }) => type)).toEqual([
    "tool.output",
  ]);
  expect(matching(events, { text: "nowhere", without: new Set() })).toEqual([]);
});

test("areas can be left out", () => {
  const left = matching(events, { text: "", without: new Set(["middleware", "run", "model", "other"] as const) });
  expect(left.map(({ type }) => type)).toEqual(["tool.started", "tool.output"]);
  expect(matching(events, { text: "", without: new Set(AREAS) })).toEqual([]);
});

test("an event is told in one line", () => {
  const [event] = matching(events, { text: "tool.started", without: new Set() });
  expect(event && summary(event)).toBe('toolName: note · callId: a · args: {"what":"a"}');
});
