// A blueprint while it is edited: every field as the text that is in it, and back.

import { Problem } from "@/api/problem";
import type { Blueprint, BlueprintChange, Json, JsonObject, Limits } from "@/api/types";
import { readJson } from "@/ui/JsonField";

export interface Draft {
  name: string;
  description: string;
  prompt: string;
  tags: string;
  tools: string;
  middleware: string;
  model: string;
  requires: string;
  status: Blueprint["status"];
  mode: Blueprint["mode"];
  isolation: Blueprint["isolation"];
  unattended: boolean;
  limits: Record<keyof Limits, string>;
  params: string;
  config: string;
  outputSchema: string;
}

export const NEW: Draft = {
  name: "",
  description: "",
  prompt: "",
  tags: "default",
  tools: "",
  middleware: "",
  model: "",
  requires: "",
  status: "active",
  mode: "tools",
  isolation: "shared",
  unattended: false,
  limits: { turns: "100", timeMs: "", tokens: "", costUsd: "" },
  params: "",
  config: "",
  outputSchema: "",
};

const shown = (value: Json): string =>
  value === null || (typeof value === "object" && Object.keys(value).length === 0)
    ? ""
    : JSON.stringify(value, null, 2);

const amount = (value: number | null | undefined): string =>
  value === null || value === undefined ? "" : String(value);

/** Parameters without those that are left to the provider. */
function chosen(params: JsonObject): JsonObject {
  const isSet = ([name, value]: [string, Json]) =>
    value !== null && !(Array.isArray(value) && value.length === 0) && !(name === "toolChoice" && value === "auto");
  return Object.fromEntries(Object.entries(params).filter(isSet));
}

export function draftOf(blueprint: Blueprint): Draft {
  const { limits } = blueprint;
  return {
    name: blueprint.name,
    description: blueprint.description,
    prompt: blueprint.prompt,
    tags: blueprint.tags.join(", "),
    tools: blueprint.tools.join(", "),
    middleware: blueprint.middleware.join(", "),
    model: typeof blueprint.model === "string" ? blueprint.model : shown(blueprint.model),
    requires: blueprint.requires.join(", "),
    status: blueprint.status,
    mode: blueprint.mode,
    isolation: blueprint.isolation,
    unattended: blueprint.unattended ?? false,
    limits: {
      turns: amount(limits.turns),
      timeMs: amount(limits.timeMs),
      tokens: amount(limits.tokens),
      costUsd: amount(limits.costUsd),
    },
    params: shown(chosen(blueprint.params)),
    config: shown(blueprint.config),
    outputSchema: shown(blueprint.outputSchema),
  };
}

/** As much of a draft as says which tools and middleware its agent gets; null while that cannot be read. */
export function resolvableOf(draft: Draft): BlueprintChange | null {
  try {
    const name = draft.name || "draft";
    return blueprintOf({ ...draft, name, prompt: draft.prompt.trim() ? draft.prompt : "(none yet)" });
  } catch {
    return null;
  }
}

/** The tags of a draft with one more, or without one that it has. */
export function toggledTag(tags: string, tag: string): string {
  const known = words(tags);
  return (known.includes(tag) ? known.filter((each) => each !== tag) : [...known, tag]).join(", ");
}

export const words = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);

/** The blueprint that a draft says; what cannot be one is thrown as a problem that says what would be right. */
export function blueprintOf(draft: Draft): BlueprintChange {
  if (!/^[a-zA-Z0-9_-]{1,64}$/.test(draft.name)) {
    throw new Problem(0, "A name has letters, digits, _ and -, at most 64 of them.");
  }
  if (!draft.prompt.trim()) throw new Problem(0, "An agent needs a prompt: who it is and what it does.");
  return {
    name: draft.name,
    description: draft.description,
    prompt: draft.prompt,
    tags: words(draft.tags),
    tools: words(draft.tools),
    middleware: words(draft.middleware),
    // Free text until the gateway has checked it: a chain of models, capabilities and parameters.
    model: modelOf(draft.model) as NonNullable<BlueprintChange["model"]> | null,
    requires: words(draft.requires) as NonNullable<BlueprintChange["requires"]>,
    status: draft.status,
    mode: draft.mode,
    isolation: draft.isolation,
    unattended: draft.unattended,
    limits: Object.fromEntries(Object.entries(draft.limits).map(([name, text]) => [name, limitOf(name, text)])),
    params: objectOf("Parameters", draft.params) ?? {},
    config: objectOf("Configuration", draft.config) ?? {},
    outputSchema: objectOf("Output schema", draft.outputSchema),
  };
}

const MODEL = /^([a-z][a-z0-9_-]*:\S(.*\S)?|[^\s:]+)$/;

/** Nothing is the installation's default; a chain is a list, in JSON. */
function modelOf(text: string): Json {
  const given = text.trim();
  if (!given) return null;
  if (given.startsWith("[")) {
    const read = readJson(given);
    if ("problem" in read) throw new Problem(0, `Model: not JSON yet: ${read.problem}`);
    return read.value;
  }
  if (!MODEL.test(given))
    throw new Problem(0, "A model reads provider:model, as openai:gpt-5-mini, or just model; a chain is a JSON list.");
  return given;
}

function limitOf(name: string, text: string): number | null {
  if (!text.trim()) return null;
  const value = Number(text);
  if (!(value > 0) || (name !== "costUsd" && !Number.isInteger(value))) {
    throw new Problem(0, `A limit is a number above 0, or empty for none; ${name} is ${text}.`);
  }
  return value;
}

function objectOf(label: string, text: string): JsonObject | null {
  const read = readJson(text);
  if ("problem" in read) throw new Problem(0, `${label}: not JSON yet: ${read.problem}`);
  if (read.value === null) return null;
  if (typeof read.value !== "object" || Array.isArray(read.value))
    throw new Problem(0, `${label}: an object, as {"a": 1}.`);
  return read.value;
}
