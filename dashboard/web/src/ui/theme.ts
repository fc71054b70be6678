// Light or dark: what the system says, unless the person has chosen.

import { useSyncExternalStore } from "react";

type Theme = "light" | "dark";

const KEPT_AS = "agency.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const watchers = new Set<() => void>();

function chosen(): Theme | null {
  const kept = localStorage.getItem(KEPT_AS);
  return kept === "light" || kept === "dark" ? kept : null;
}

function now(): Theme {
  return chosen() ?? (system.matches ? "dark" : "light");
}

function apply(): void {
  document.documentElement.dataset.theme = now();
  for (const watcher of [...watchers]) watcher();
}

system.addEventListener("change", apply);
apply();

export function toggleTheme(): void {
  const next: Theme = now() === "dark" ? "light" : "dark";
  if (next === (system.matches ? "dark" : "light")) localStorage.removeItem(KEPT_AS);
  else localStorage.setItem(KEPT_AS, next);
  apply();
}

function subscribe(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, now);
}

/** A colour of the theme as it is now, as `rgb(…)`: for canvases, which do not know CSS variables. */
export function resolvedColor(token: `--${string}`): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${token})`;
  document.body.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}
