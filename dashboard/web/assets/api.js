// The gateway's HTTP API. What it refuses is thrown as a `Problem`, with the words that it has for people.

const KEPT_AS = "agency.secret";

export class Problem extends Error {
  /** `status` is 0 if nobody answered. */
  constructor(status, message) {
    super(message);
    this.status = status;
  }

  /** Whether the same request may work later. */
  get passes() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** The secret that the gateway wants, for as long as the tab is open. */
export const secret = {
  get: () => sessionStorage.getItem(KEPT_AS),
  set: (text) => sessionStorage.setItem(KEPT_AS, text),
  clear: () => sessionStorage.removeItem(KEPT_AS),
};

export const get = (path) => request("GET", path);
export const post = (path, body = {}) => request("POST", path, body);
export const put = (path, body) => request("PUT", path, body);

async function request(method, path, body) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  if (secret.get()) headers.Authorization = `Bearer ${asBytes(secret.get())}`;
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: JSON.stringify(body), cache: "no-store" });
  } catch {
    throw new Problem(0, "The gateway does not answer.");
  }
  if (!answer.ok) throw await asProblem(answer);
  try {
    return await answer.json();
  } catch {
    throw new Problem(0, "The gateway's answer broke off.");
  }
}

async function asProblem(answer) {
  const said = await answer.json().catch(() => ({}));
  return new Problem(answer.status, said.detail ? sentence(said.detail) : `The gateway answered ${answer.status}.`);
}

/** Headers are bytes, and the gateway reads them as UTF-8. */
function asBytes(text) {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

function sentence(text) {
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(capital) ? capital : `${capital}.`;
}

/** Where to open a socket. Browsers send no headers with one, so the secret is changed for a ticket. */
export async function socketAddress(path) {
  const url = new URL(path, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  if (secret.get()) url.searchParams.set("ticket", (await post("/tickets")).ticket);
  return url;
}

/** A path of an agency or of one of its threads. */
export function agencyPath(agency, rest = "") {
  return `/agency/${encodeURIComponent(agency)}${rest}`;
}

export function threadPath(agency, thread, rest = "") {
  return agencyPath(agency, `/agent/${encodeURIComponent(thread)}${rest}`);
}

/** Doing something once, though it may take several requests: the same content goes with the same key. */
export class Once {
  #content = null;
  #key = null;

  /** The body of a request, with its key. */
  body(content) {
    const now = JSON.stringify(content);
    if (now !== this.#content) this.#key = newKey();
    this.#content = now;
    return { ...content, idempotencyKey: this.#key };
  }

  /** It has arrived; the same content again is something else. */
  done() {
    this.#content = null;
  }
}

function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
