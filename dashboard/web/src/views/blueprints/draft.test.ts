import { describe, expect, it } from "vitest";
import { blueprint } from "@/testing/samples";
import { blueprintOf, draftOf, NEW } from "@/views/blueprints/draft";

const { params } = blueprint("clerk");

const clerk = blueprint("clerk", {
  tags: ["default", "billing"],
  model: ["openai:a", { model: "openai:b", requires: ["images"] }],
  requires: ["tools"],
  tools: ["refund"],
  middleware: ["hitl"],
  params: { ...params, temperature: 0.2 },
  config: { hitl: { tools: ["refund"] } },
  limits: { turns: 100, timeMs: null, tokens: null, costUsd: 0.5 },
});

describe("a blueprint that is edited", () => {
  it("comes back as it was if nothing was changed", () => {
    const { source: _, warnings: __, createdAt: ___, updatedAt: ____, unattendedTools: _____, ...same } = clerk;
    expect(blueprintOf(draftOf(clerk))).toEqual({ ...same, params: { temperature: 0.2 } }); // without the defaults;
  });

  it("is refused with what would be right", () => {
    const good = { ...NEW, name: "clerk", prompt: "You are a clerk." };
    expect(blueprintOf(good).model).toBeNull();
    expect(() => blueprintOf({ ...good, name: "a b" })).toThrow("letters, digits");
    expect(() => blueprintOf({ ...good, prompt: " " })).toThrow("needs a prompt");
    expect(blueprintOf({ ...good, model: "gpt" }).model).toBe("gpt");
    expect(() => blueprintOf({ ...good, model: "open ai:gpt" })).toThrow("provider:model");
    expect(() => blueprintOf({ ...good, config: "{" })).toThrow("Configuration: not JSON yet");
    expect(() => blueprintOf({ ...good, params: "[1]" })).toThrow("Parameters: an object");
    expect(() => blueprintOf({ ...good, limits: { ...good.limits, turns: "1.5" } })).toThrow("above 0");
  });
});
