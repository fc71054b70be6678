import { request } from "@/api/client";
import type { Health, InstallationStatus } from "@/api/types";

/** Only for the installation's owner. */
export const getStatus = () => request<InstallationStatus>("/status");

export const getHealth = () => request<Health>("/healthz");
