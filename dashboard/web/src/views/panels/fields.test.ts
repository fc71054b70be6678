import { describe, expect, it } from "vitest";
import { bodyOf, fieldsOf } from "@/views/panels/fields";

const SCHEMA = {
  type: "object",
  properties: {
    guest: { type: "string", title: "Guest", description: "Who came." },
    mood: { enum: ["glad", "sad"], type: "string", default: "glad" },
    stars: { type: "integer", default: 5 },
    again: { type: "boolean", default: false },
    tags: { type: "array", default: [] },
    note: { type: "string" },
  },
  required: ["guest"],
};

describe("the form of a body", () => {
  it("has a field for each property", () => {
    const fields = fieldsOf(SCHEMA);
    expect(fields.map((each) => each.kind)).toEqual(["text", "choice", "number", "check", "json", "text"]);
    expect(fields[0]).toMatchObject({ label: "Guest", hint: "Who came.", required: true, first: "" });
    expect(fields[1]).toMatchObject({ choices: ["glad", "sad"], first: "glad", required: false });
    expect(fieldsOf(null)).toEqual([]);
    expect(fieldsOf({ type: "object" })).toEqual([]);
  });

  it("becomes the body, without what was left empty", () => {
    const filled = { guest: "Ada", stars: "3", again: "true", tags: '["a"]', note: "" };
    const body = { guest: "Ada", mood: "glad", stars: 3, again: true, tags: ["a"] };
    expect(bodyOf(fieldsOf(SCHEMA), filled)).toEqual(body);
    expect(() => bodyOf(fieldsOf(SCHEMA), { tags: "[" })).toThrow();
  });
});
