// What middleware bring: panels that the page shows without knowing them, and requests to their routes.

import { client, path, request } from "@/api/client";
import { useLoad } from "@/api/hooks";
import type { ExtensionPanel, ExtensionRoute, Json, JsonObject } from "@/api/types";

export interface NamedPanel {
  /** In the page's address. */
  id: string;
  extension: string;
  panel: ExtensionPanel;
}

async function loadPanels(): Promise<NamedPanel[]> {
  return (await client.extensions()).flatMap(({ name, panels }) =>
    panels.map((panel) => ({ id: `${name}.${panel.name}`, extension: name, panel })),
  );
}

/** The panels of all extensions. */
export const usePanels = () => useLoad("panels", loadPanels);

/** Ask a route of an extension; `names` has the values of the names in its path. */
export function askRoute(
  agency: string,
  extension: string,
  { method, path: template }: ExtensionRoute,
  names: JsonObject = {},
  body?: JsonObject,
): Promise<Json | undefined> {
  const own = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(names[name] ?? "")));
  const address = `${path`/agency/${agency}/x/${extension}`}/${own}`;
  return request<Json | undefined>(address, { method, ...(body ? { body } : {}) });
}
