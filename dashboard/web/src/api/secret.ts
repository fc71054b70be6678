/** The secret (or key) that the gateway wants, for as long as the tab is open. */
const KEPT_AS = "agency.secret";

export const secret = {
  get: (): string | null => sessionStorage.getItem(KEPT_AS),
  set: (text: string): void => sessionStorage.setItem(KEPT_AS, text),
  clear: (): void => sessionStorage.removeItem(KEPT_AS),
};
