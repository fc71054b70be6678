// Arguments that a person has edited: are they JSON, an object, and what the tool takes?

import type { Json, JsonObject } from "@/api/types";

/** What stands in the place of a secret, or at the end of a long text; left as it is, the real value stays. */
const MASKED = "••••••";
const CUT = /… \(\d[\d,]* more characters\)$/;
const SHOWN = 3;

export type Parsed = { value: JsonObject } | { problem: string };

export function parse(text: string): Parsed {
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch (error) {
    return { problem: `That is not JSON yet: ${(error as Error).message}${place(text, error as Error)}.` };
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    return { problem: "The arguments are an object: begin with { and end with }." };
  }
  return { value };
}

/** In which line, where the browser only counts characters. */
function place(text: string, { message }: Error): string {
  const at = /position (\d+)/.exec(message)?.[1];
  if (at === undefined || message.includes("line")) return "";
  return `, line ${text.slice(0, Number(at)).split("\n").length}`;
}

interface Fault {
  instanceLocation: string;
  keyword: string;
  error: string;
}

/** Keywords that only say that something inside them is wrong. */
const AROUND = new Set([
  "properties",
  "items",
  "prefixItems",
  "additionalProperties",
  "allOf",
  "$ref",
  "if",
  "then",
  "else",
]);

/** What to say about the faults that a validator has found, without those of values that only stand for others. */
export function explain(faults: readonly Fault[], value: JsonObject): string[] {
  const told = faults
    .filter(({ keyword, instanceLocation }) => !(AROUND.has(keyword) && hasInner(faults, instanceLocation, keyword)))
    .filter(({ instanceLocation }) => !isPlaceholder(valueAt(value, instanceLocation)))
    .map(({ instanceLocation, keyword, error }) => {
      const where = instanceLocation.replace(/^#\/?/, "");
      if (keyword === "false") return `there is no argument ${where.replaceAll("/", ".")}`;
      return where ? `${where}: ${error}` : error;
    });
  return [...new Set(told)].slice(0, SHOWN);
}

function hasInner(faults: readonly Fault[], location: string, keyword: string): boolean {
  return faults.some(
    (each) =>
      each.instanceLocation.startsWith(location) && !(each.instanceLocation === location && each.keyword === keyword),
  );
}

function isPlaceholder(value: Json | undefined): boolean {
  return typeof value === "string" && (value.includes(MASKED) || CUT.test(value));
}

function valueAt(value: Json, location: string): Json | undefined {
  let at: Json | undefined = value;
  for (const part of location.replace(/^#\/?/, "").split("/").filter(Boolean)) {
    const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    at = at !== null && typeof at === "object" ? (at as Record<string, Json>)[name] : undefined;
  }
  return at;
}

/** What is wrong with the arguments, by the tool's schema; nothing if it has none that can be read. */
export async function problems(value: JsonObject, schema: JsonObject | null): Promise<string[]> {
  if (schema === null) return [];
  const { Validator } = await import("@cfworker/json-schema");
  try {
    const { errors } = new Validator(schema, "2020-12", false).validate(value);
    return explain(errors, value);
  } catch {
    return []; // the gateway checks them, too
  }
}
