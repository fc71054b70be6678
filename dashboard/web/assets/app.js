// The dashboard: which agency and which thread are open, by the address `#/agency/thread`, and who shows what of them.

import { Agency } from "/assets/agency.js";
import { get, secret } from "/assets/api.js";
import { conversation } from "/assets/conversation.js";
import { details } from "/assets/details.js";
import { newAgency, newThread, signIn } from "/assets/dialogs.js";
import { h, setText } from "/assets/dom.js";
import { address, sidebar } from "/assets/sidebar.js";
import { Thread } from "/assets/thread.js";

const RETRY_MS = 2_000;

const byId = (id) => document.getElementById(id);
const page = byId("page");
const left = sidebar();
const open = { agencies: null, agency: null, thread: null };
/** Why the agencies could not be listed. */
let failed = null;
let middle = null;
let right = null;

// Where we are.

function place() {
  const [agency, thread] = location.hash.replace(/^#\//, "").split("/").map(decoded);
  return { agency: agency || null, thread: (agency && thread) || null };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function go(agency, thread) {
  location.hash = address(agency, thread);
}

/** Say the address of what is shown, without a step in the history. */
function settle(agency, thread) {
  history.replaceState(null, "", address(agency, thread));
  follow();
}

/** Open what the address names, and close what was open. */
function follow() {
  const wanted = place();
  if (wanted.agency === null && open.agencies?.length) {
    settle(open.agencies[0].id);
    return;
  }
  if (open.agency?.id !== wanted.agency) {
    open.agency?.close();
    open.agency = wanted.agency === null ? null : new Agency(wanted.agency, changed);
    closeThread();
  }
  if (wanted.thread === null) closeThread();
  else if (open.thread?.id !== wanted.thread) openThread(wanted.thread);
  changed();
}

function openThread(id) {
  closeThread();
  open.thread = new Thread(open.agency.id, id, changed);
  middle = conversation(open.agency, open.thread);
  right = details();
  byId("middle").replaceChildren(middle.node);
  byId("right").replaceChildren(right.node);
}

function closeThread() {
  open.thread?.close();
  open.thread = middle = right = null;
  byId("right").replaceChildren();
}

// Showing it.

let asked = false;

/** Something is new: show it with the next frame. */
function changed() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    render();
  });
}

function render() {
  left.update({ ...open, agencies: open.agencies ?? [] });
  byId("new-thread").disabled = !open.agency?.loaded;
  byId("sign-out").hidden = !secret.get();
  renderThread();
  note();
  title();
}

function renderThread() {
  const { agencies, agency, thread } = open;
  const refused = [thread, agency].find((each) => each?.line.status === "ended")?.line.problem ?? failed;
  if (refused?.status === 401) {
    signInAgain();
  } else if (refused && !refused.passes) {
    lead(refused.message, "Choose another one on the left.");
    byId("right").replaceChildren();
  } else if (thread) {
    middle.update();
    right.update(thread);
  } else if (agencies?.length === 0) {
    lead("Welcome.", "Create an agency to begin: it holds your threads.", "New agency", makeAgency);
  } else if (!agency?.loaded) {
    lead("", "");
  } else if (agency.threads.size) {
    settle(agency.id, agency.tree()[0].thread.id); // who names no thread sees the newest
  } else {
    lead("Nothing here yet.", "Start a thread to talk to an agent.", "New thread", makeThread);
  }
}

/** In the place of a conversation: what is the matter, and what to do. */
function lead(said, advice, button, act) {
  const key = [said, advice].join("\n");
  const shown = byId("middle").firstElementChild;
  if (shown?.dataset.lead === key) return;
  byId("middle").replaceChildren(
    h(
      "div",
      { class: "lead", "data-lead": key },
      h("h2", {}, said),
      h("p", {}, advice),
      button ? h("button", { type: "button", class: "main", onclick: act }, button) : null,
    ),
  );
}

/** While there is no connection. */
function note() {
  const away = [open.agency?.line, open.thread?.line].find((line) => line?.status === "waiting");
  const problem = away?.problem ?? (failed?.passes ? failed : null);
  const words = away || problem ? `${problem?.message ?? "The connection was lost."} Trying again …` : "";
  byId("note").hidden = !words;
  setText(byId("note"), words);
}

function title() {
  const waiting = open.agency?.approvals.length ?? 0;
  const name = open.agencies?.find(({ id }) => id === open.agency?.id)?.name;
  document.title = `${waiting ? `(${waiting}) ` : ""}${name ? `${name} · ` : ""}Agency`;
}

// What people do.

function show(pane) {
  page.dataset.pane = pane;
  for (const button of byId("tabs").children) button.setAttribute("aria-pressed", String(button.dataset.pane === pane));
}

const makeThread = () => newThread(open.agency, (id) => go(open.agency.id, id));

const makeAgency = () =>
  newAgency((made) => {
    open.agencies = [...(open.agencies ?? []), made];
    go(made.id);
  });

function signInAgain() {
  signIn(() => {
    open.agency?.close();
    open.agency = null;
    closeThread();
    start();
  });
}

byId("new-thread").addEventListener("click", makeThread);
byId("new-agency").addEventListener("click", makeAgency);
byId("agencies").addEventListener("change", (event) => go(event.target.value));
byId("sign-out").addEventListener("click", () => {
  secret.clear();
  location.reload();
});
byId("skip").addEventListener("click", () => {
  show("talk");
  byId("middle").querySelector("textarea, [tabindex], button")?.focus();
});
byId("tabs").addEventListener("click", ({ target }) => target.dataset.pane && show(target.dataset.pane));
byId("threads").addEventListener("click", ({ target }) => target.closest("a") && show("talk"));
addEventListener("hashchange", () => {
  if (place().thread) show("talk");
  follow();
});
for (const [where, event] of [[window, "online"], [document, "visibilitychange"]]) {
  where.addEventListener(event, () => [open.agency, open.thread].forEach((each) => each?.line.retry()));
}
setInterval(changed, 1_000); // times that go on

// Beginning.

async function start() {
  try {
    open.agencies = (await get("/agencies?limit=500")).agencies;
    failed = null;
  } catch (problem) {
    failed = problem;
    if (problem.passes) setTimeout(start, RETRY_MS);
  }
  if (failed) changed();
  else follow();
}

show(place().thread ? "talk" : "threads");
start();
