// Where the gateway is mounted, from the page's <base>, which the gateway writes: "" at the root, else as "/agents".

export const BASE = typeof document === "undefined" ? "" : baseOf(document.querySelector("base")?.getAttribute("href"));

export function baseOf(href: string | null | undefined): string {
  return (href ?? "").replace(/\/+$/, "");
}
