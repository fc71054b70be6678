// Agencies, their blueprints, keys, usage, budget and policy.

import type { StatisticsQuery } from "@/api/agencyClient";
import { client, ifThere } from "@/api/client";
import { Problem } from "@/api/problem";
import type { AgencyLayers, BlueprintChange, JsonObject, KeyRole, Limits, Policy } from "@/api/types";

export const listAgencies = () => client.agencies();
export const createAgency = (body: { name: string; idempotencyKey: string }) =>
  client.createAgency(body.name, body.idempotencyKey);
export const renameAgency = (agency: string, name: string) => client.agency(agency).rename(name);
export const deleteAgency = (agency: string) => client.agency(agency).delete();
export const getUsage = (agency: string) => client.agency(agency).usage();
export const putBudget = (agency: string, budget: Limits) => client.agency(agency).setBudget(budget);

export const putLimits = (agency: string, limits: Limits) => client.agency(agency).setLimits(limits);
/** What the owner and the agency have each set; null for those who may not set it. */
export const getLayers = (agency: string): Promise<AgencyLayers | null> =>
  ifThere(client.agency(agency).layers()).catch((error: unknown) => {
    if (error instanceof Problem && error.status === 403) return null;
    throw error;
  });

export const getStatistics = (agency: string, query: StatisticsQuery) => client.agency(agency).statistics(query);

/** Null where the gateway has no policies. */
export const getPolicy = (agency: string) => ifThere(client.agency(agency).policy());
export const putPolicy = (agency: string, policy: Policy) => client.agency(agency).setPolicy(policy);

// Blueprints.

export const listBlueprints = (agency: string) => client.agency(agency).blueprints();
export const putBlueprint = (agency: string, blueprint: BlueprintChange) =>
  client.agency(agency).putBlueprint(blueprint);
export const resolveBlueprint = (agency: string, blueprint: BlueprintChange) =>
  client.agency(agency).resolveBlueprint(blueprint);
export const deleteBlueprint = (agency: string, name: string) => client.agency(agency).deleteBlueprint(name);

// Providers.

export const listProviders = (agency: string) => client.agency(agency).providers();
export const putProvider = (agency: string, name: string, entry: JsonObject) =>
  client.agency(agency).putProvider(name, entry);
export const deleteProvider = (agency: string, name: string) => client.agency(agency).deleteProvider(name);

// Keys.

export const listKeys = (agency: string) => client.agency(agency).keys();
export const createKey = (agency: string, name: string, role: KeyRole) => client.agency(agency).createKey(name, role);
export const revokeKey = (agency: string, key: string) => client.agency(agency).revokeKey(key);
