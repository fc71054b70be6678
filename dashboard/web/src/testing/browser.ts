// What components need of a browser and jsdom does not have. Real layout, focus traps and scrolling are tested in a real
// browser (tests/browser).

import { cleanup, configure } from "@testing-library/react";
import { afterEach, vi } from "vitest";
import { closeAll } from "@/live/hooks";

const SIZE = 600;
/** The default, a second, is too short on a busy machine. */
const PATIENCE_MS = 5_000;

configure({ asyncUtilTimeout: PATIENCE_MS });

class NoResizes {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}

vi.stubGlobal("ResizeObserver", NoResizes);
vi.stubGlobal("CSS", { escape: (text: string) => text.replace(/[^\w-]/g, "\\$&") });
vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener() {}, removeEventListener() {} }));

// Lists draw as many rows as fit: without a height, none would.
for (const side of ["offsetWidth", "offsetHeight", "clientWidth", "clientHeight"]) {
  Object.defineProperty(HTMLElement.prototype, side, { configurable: true, get: () => SIZE });
}
Element.prototype.scrollIntoView = () => {};
Element.prototype.scrollTo = () => {};
Element.prototype.hasPointerCapture = () => false;

HTMLDialogElement.prototype.showModal = function showModal() {
  this.open = true;
  this.querySelector<HTMLElement>("button, input, textarea")?.focus();
};
HTMLDialogElement.prototype.close = function close() {
  this.open = false;
};

afterEach(() => {
  cleanup();
  closeAll();
  history.replaceState(null, "", "/");
});
