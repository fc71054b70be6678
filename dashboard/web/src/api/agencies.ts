// Agencies, their blueprints, keys, usage, budget and policy.

import { ifThere, path, request } from "@/api/client";
import type {
  Agency,
  AgencyUsage,
  Blueprint,
  BlueprintChange,
  Key,
  KeyRole,
  KeyWithSecret,
  Limits,
  Policy,
} from "@/api/types";

const MOST = 500;

export const listAgencies = async (): Promise<Agency[]> =>
  (await request<{ agencies: Agency[] }>("/agencies", { query: { limit: MOST } })).agencies;

export const createAgency = (body: { name: string; idempotencyKey: string }) =>
  request<Agency>("/agencies", { method: "POST", body });

export const renameAgency = (agency: string, name: string) =>
  request<Agency>(path`/agency/${agency}`, { method: "PATCH", body: { name } });

export const deleteAgency = (agency: string) => request<void>(path`/agency/${agency}`, { method: "DELETE" });

export const getUsage = (agency: string) => request<AgencyUsage>(path`/agency/${agency}/usage`);

export const putBudget = (agency: string, budget: Limits) =>
  request<AgencyUsage>(path`/agency/${agency}/budget`, { method: "PUT", body: budget });

/** Null where the gateway has no policies. */
export const getPolicy = (agency: string) => ifThere(request<Policy>(path`/agency/${agency}/policy`));

export const putPolicy = (agency: string, policy: Policy) =>
  request<Policy>(path`/agency/${agency}/policy`, { method: "PUT", body: policy });

// Blueprints.

export const listBlueprints = async (agency: string): Promise<Blueprint[]> =>
  (await request<{ blueprints: Blueprint[] }>(path`/agency/${agency}/blueprints`, { query: { limit: MOST } }))
    .blueprints;

/** Of one that is there, what is not given stays as it was. */
export const putBlueprint = (agency: string, blueprint: BlueprintChange) =>
  request<Blueprint>(path`/agency/${agency}/blueprints`, { method: "POST", body: blueprint });

export const deleteBlueprint = (agency: string, name: string) =>
  request<void>(path`/agency/${agency}/blueprints/${name}`, { method: "DELETE" });

// Keys.

export const listKeys = async (agency: string): Promise<Key[]> =>
  (await request<{ keys: Key[] }>(path`/agency/${agency}/keys`, { query: { limit: MOST } })).keys;

export const createKey = (agency: string, name: string, role: KeyRole) =>
  request<KeyWithSecret>(path`/agency/${agency}/keys`, { method: "POST", body: { name, role } });

export const revokeKey = (agency: string, key: string) =>
  request<void>(path`/agency/${agency}/keys/${key}`, { method: "DELETE" });
