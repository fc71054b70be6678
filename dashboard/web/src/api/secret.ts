/** The secret (or key) that the gateway wants, for as long as the tab is open. */
const KEPT_AS = "agency.secret";

export const secret = {
  get: (): string | null => sessionStorage.getItem(KEPT_AS),
  set: (text: string): void => sessionStorage.setItem(KEPT_AS, text),
  clear: (): void => sessionStorage.removeItem(KEPT_AS),
};

/** Headers are bytes, and the gateway reads them as UTF-8. */
function asBytes(text: string): string {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

export function authorization(): Record<string, string> {
  const kept = secret.get();
  return kept ? { Authorization: `Bearer ${asBytes(kept)}` } : {};
}
