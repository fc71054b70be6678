import { expect, test } from "vitest";
import { documentOf, sample, typeWords } from "@/views/api/document";

const GIVEN = {
  info: { title: "Agency", version: "1" },
  paths: {
    "/agency/{a}": {
      get: {
        tags: ["agencies"],
        summary: "Look",
        parameters: [{ name: "a", in: "path", required: true, schema: { type: "string" } }],
        responses: { 200: { description: "Yes", content: { "application/json": { schema: { $ref: "#/x/Agency" } } } } },
      },
      post: { requestBody: { content: { "application/json": { schema: { $ref: "#/x/Agency" } } } }, responses: {} },
    },
  },
  components: {
    schemas: {
      Agency: {
        type: "object",
        properties: {
          name: { type: "string", examples: ["Bakery"] },
          below: { type: "array", items: { $ref: "#/x/Agency" } },
          n: { anyOf: [{ type: "integer" }, { type: "null" }] },
        },
      },
    },
  },
};

test("operations are listed with what they take and answer", () => {
  const { operations, schemas } = documentOf(GIVEN);
  expect(operations.map(({ id, tag }) => [id, tag])).toEqual([
    ["get /agency/{a}", "agencies"],
    ["post /agency/{a}", "gateway"],
  ]);
  expect(operations[0]?.parameters[0]).toMatchObject({ name: "a", in: "path", required: true });
  expect(sample(operations[1]?.body ?? {}, schemas)).toMatchObject({ name: "Bakery", n: 0 });
});

test("types have names, and a schema that holds itself ends somewhere", () => {
  const { schemas } = documentOf(GIVEN);
  const { below, n } = (schemas.Agency?.properties ?? {}) as Record<string, never>;
  expect([typeWords(below ?? {}), typeWords(n ?? {})]).toEqual(["list of Agency", "integer or null"]);
  expect(JSON.stringify(sample({ $ref: "#/x/Agency" }, schemas)).length).toBeLessThan(2_000);
});
