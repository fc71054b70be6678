// The fields of a form, from the JSON schema of a body; and the body, from what a person has filled in.

import type { Json, JsonObject } from "@/api/types";

export interface Field {
  name: string;
  label: string;
  kind: "text" | "number" | "check" | "choice" | "json";
  choices: readonly string[];
  hint: string;
  required: boolean;
  first: string;
}

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export function fieldsOf(schema: JsonObject | null): Field[] {
  const properties = schema?.properties;
  if (!isObject(properties)) return [];
  const required = Array.isArray(schema?.required) ? schema.required : [];
  return Object.entries(properties).map(([name, given]) => {
    const each = isObject(given) ? given : {};
    const kind = kindOf(each);
    return {
      name,
      label: typeof each.title === "string" ? each.title : name,
      kind,
      choices: Array.isArray(each.enum) ? each.enum.map(String) : [],
      hint: typeof each.description === "string" ? each.description : "",
      required: required.includes(name),
      first: each.default === undefined ? "" : kind === "json" ? JSON.stringify(each.default) : String(each.default),
    };
  });
}

function kindOf(schema: JsonObject): Field["kind"] {
  if (Array.isArray(schema.enum)) return "choice";
  if (schema.type === "string") return "text";
  if (schema.type === "boolean") return "check";
  return schema.type === "integer" || schema.type === "number" ? "number" : "json";
}

/** The body; what was left empty is left out. Text that is not JSON where it has to be throws. */
export function bodyOf(fields: readonly Field[], filled: Readonly<Record<string, string>>): JsonObject {
  const body: JsonObject = {};
  for (const { name, kind, first } of fields) {
    const text = filled[name] ?? first;
    if (text === "") continue;
    body[name] = kind === "check" ? text === "true" : kind === "text" || kind === "choice" ? text : JSON.parse(text);
  }
  return body;
}
