// The OpenAPI document as the page shows it: operations by subject, and what they take and answer as examples of JSON.

import type { Json, JsonObject } from "@/api/types";

interface Schema extends JsonObject {}

export interface Operation {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  readonly description: string;
  readonly parameters: readonly Parameter[];
  /** A JSON schema of the body; null if it takes none, or something else than JSON. */
  readonly body: Schema | null;
  readonly answers: readonly { status: string; description: string; schema: Schema | null }[];
}

export interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly description: string;
  readonly schema: Schema;
}

export interface ApiDocument {
  readonly title: string;
  readonly version: string;
  readonly operations: readonly Operation[];
  readonly schemas: Readonly<Record<string, Schema>>;
}

const METHODS = ["get", "post", "put", "patch", "delete"];

export function documentOf(given: JsonObject): ApiDocument {
  const info = object(given.info);
  const operations = Object.entries(object(given.paths)).flatMap(([path, methods]) =>
    METHODS.filter((method) => isObject(object(methods)[method])).map((method) =>
      operationOf(path, method, object(object(methods)[method])),
    ),
  );
  return {
    title: text(info.title),
    version: text(info.version),
    operations,
    schemas: object(object(given.components).schemas) as Record<string, Schema>,
  };
}

function operationOf(path: string, method: string, given: JsonObject): Operation {
  const [tag] = list(given.tags);
  return {
    id: `${method} ${path}`,
    method: method.toUpperCase(),
    path,
    tag: text(tag) || "gateway",
    summary: text(given.summary),
    description: text(given.description),
    parameters: list(given.parameters).map((each) => parameterOf(object(each))),
    body: jsonOf(object(given.requestBody)),
    answers: Object.entries(object(given.responses)).map(([status, answer]) => ({
      status,
      description: text(object(answer).description),
      schema: jsonOf(object(answer)),
    })),
  };
}

function parameterOf(given: JsonObject): Parameter {
  return {
    name: text(given.name),
    in: text(given.in),
    required: given.required === true,
    description: text(given.description),
    schema: object(given.schema),
  };
}

function jsonOf(given: JsonObject): Schema | null {
  const schema = object(object(given.content)["application/json"]).schema;
  return isObject(schema) ? schema : null;
}

const DEPTH = 6;

/** A value that fits a schema: its example if it has one, else made of its parts. */
export function sample(schema: Schema, schemas: ApiDocument["schemas"], depth = 0): Json {
  if (typeof schema.$ref === "string") {
    const named = schemas[schema.$ref.split("/").at(-1) ?? ""];
    return named && depth < DEPTH ? sample(named, schemas, depth + 1) : null;
  }
  const [example] = list(schema.examples);
  if (example !== undefined) return example;
  if (schema.default !== undefined && schema.default !== null) return schema.default;
  if (schema.const !== undefined) return schema.const;
  const [choice] = list(schema.enum);
  if (choice !== undefined) return choice;
  for (const kind of ["anyOf", "oneOf", "allOf"]) {
    const [first] = list(schema[kind]);
    if (isObject(first)) return sample(first, schemas, depth);
  }
  switch (schema.type) {
    case "object":
      return depth > DEPTH ? {} : sampleObject(schema, schemas, depth);
    case "array":
      return isObject(schema.items) && depth < DEPTH ? [sample(schema.items, schemas, depth + 1)] : [];
    case "string":
      return "…";
    case "integer":
    case "number":
      return 0;
    case "boolean":
      return false;
    default:
      return null;
  }
}

function sampleObject(schema: Schema, schemas: ApiDocument["schemas"], depth: number): JsonObject {
  const made: JsonObject = {};
  for (const [name, part] of Object.entries(object(schema.properties))) {
    made[name] = sample(object(part), schemas, depth + 1);
  }
  return made;
}

/** What a schema is called in a few words. */
export function typeWords(schema: Schema): string {
  if (typeof schema.$ref === "string") return schema.$ref.split("/").at(-1) ?? "";
  const parts = list(schema.anyOf).filter(isObject).map(typeWords);
  if (parts.length) return [...new Set(parts)].join(" or ");
  if (list(schema.enum).length) return list(schema.enum).map(String).join(" | ");
  if (schema.type === "array" && isObject(schema.items)) return `list of ${typeWords(schema.items)}`;
  return text(schema.type) || "any";
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function object(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {};
}

function list(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : [];
}

function text(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}
