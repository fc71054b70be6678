import { client } from "@/api/client";

/** Only for the installation's owner. */
export const getStatus = () => client.status();

export const getHealth = () => client.health();
