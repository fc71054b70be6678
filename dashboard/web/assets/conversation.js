// The middle: what is said in a thread, as it is said; what it waits for; and the way to say something.

import { h, keep, onSubmit, setText } from "/assets/dom.js";
import { markdown } from "/assets/markdown.js";
import { address, statusView } from "/assets/sidebar.js";
import { isSpeaking, transcript } from "/assets/transcript.js";
import { waitingView } from "/assets/waiting.js";
import { brief, clock, count, duration, isActive, money, number, pretty } from "/assets/words.js";

const ENTRIES_SHOWN = 200;
const NEAR = 120;

/** One thread's; `{ node, update({ agency, thread }) }`. */
export function conversation(agency, thread) {
  const head = headView(agency, thread);
  const log = h("div", { class: "log", role: "log", "aria-label": "Messages" });
  const earlier = h("button", { type: "button", class: "quiet", hidden: true }, "Show earlier messages");
  const live = liveView();
  const tail = tailView(thread);
  const scroll = h(
    "div",
    { class: "scroll talk", role: "group", tabindex: "0", "aria-label": "What was said" },
    earlier,
    log,
    live.node,
    tail.node,
  );
  const waiting = waitingView((id) => {
    agency.answered();
    if (id === thread.id) thread.answered();
  });
  const composer = composerView(thread);
  const node = h("div", { class: "conversation" }, head.node, scroll, waiting.node, composer.node);
  let shown = ENTRIES_SHOWN;
  let fresh = true;
  earlier.addEventListener("click", () => {
    shown += ENTRIES_SHOWN;
    update();
  });

  function update() {
    head.update();
    composer.update();
    if (!thread.state) return;
    const atEnd = fresh || scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR;
    const entries = transcript(thread);
    const { agentType: agent, parent } = thread.state;
    if (parent && entries.length) entries[0].by = agency.nameOf(parent.threadId); // a child begins with an order
    earlier.hidden = entries.length <= shown;
    keep(log, entries.slice(-shown).map((entry) => ({ ...entry, agency, agent })), ({ key }) => key, entryView);
    live.update(agent, isSpeaking(thread) ? thread.live.text : null);
    log.setAttribute("aria-busy", String(!live.node.hidden));
    tail.update(entries.length);
    waiting.update({ agency, thread });
    if (atEnd) scroll.scrollTop = scroll.scrollHeight;
    fresh = false;
  }

  return { node, update };
}

function headView(agency, thread) {
  const name = h("h2");
  const id = h("span", { class: "id" }, thread.id);
  const up = h("a", { class: "up", hidden: true });
  const status = statusView();
  const figures = h("p", { class: "figures" });
  const stop = h("button", { type: "submit", class: "danger" }, "Stop");
  const form = h("form", { class: "stop" }, stop);
  onSubmit(form, () => thread.cancel());
  return {
    node: h("header", { class: "head" }, h("div", { class: "names" }, up, name, id, status.node), figures, form),
    update() {
      setText(name, thread.state?.agentType ?? "…");
      const parent = thread.state?.parent?.threadId;
      up.hidden = !parent;
      if (parent) {
        up.href = address(agency.id, parent);
        setText(up, `${agency.nameOf(parent)} ›`);
      }
      status.node.hidden = !thread.run;
      if (thread.run) status.update(thread.run);
      form.hidden = !isActive(thread.status);
      setText(figures, figuresOf(thread));
      figures.title = tokensOf(thread);
    },
  };
}

function figuresOf({ envelope, state, status, loadedAt }) {
  if (!envelope) return state?.model ?? "";
  const { turns, tokensUsed, durationMs, costUsd, model, attempts } = envelope.meta;
  const going = status === "running" ? Date.now() - loadedAt : 0; // time counts while the run is not paused
  const tokens = `${number(tokensUsed.input + tokensUsed.output)} tokens`;
  const failed = attempts.length ? [count(attempts.length, "failed attempt")] : [];
  const time = duration(durationMs + going);
  return [count(turns, "turn"), tokens, money(costUsd), time, model ?? state.model, ...failed].join(" · ");
}

/** The same in full, and what failed. */
function tokensOf({ envelope }) {
  if (!envelope) return "";
  const { tokensUsed, children, attempts } = envelope.meta;
  const { input, output, cachedInput } = tokensUsed;
  const below = children.tokensUsed.input + children.tokensUsed.output;
  return [
    `${number(input)} tokens in (${number(cachedInput)} from the cache), ${number(output)} out`,
    ...(below ? [`of these ${number(below)} by subagents, ${money(children.costUsd)}`] : []),
    ...attempts.map(({ model, turn, code, message }) => `turn ${turn}: ${model}: ${code} ${message}`),
  ].join("\n");
}

// What was said.

function entryView({ role, origin, agent }) {
  const who = h("span", { class: "who" });
  const text = h("div", { class: "text" });
  const calls = h("ul", { class: "calls" });
  const node = h("article", { class: "entry", "data-role": origin ? "note" : role }, who, text, calls);
  let said = null;
  return {
    node,
    update(entry) {
      setText(who, entry.by ?? entry.origin ?? { user: "You", assistant: agent, tool: "Tool", system: "System" }[role]);
      if (said !== entry.text) {
        said = entry.text;
        if (role === "assistant") text.replaceChildren(...markdown(said));
        else setText(text, said);
        text.hidden = !said;
      }
      keep(calls, entry.calls.map((call) => ({ ...call, agency: entry.agency })), ({ id }) => id, callView);
      calls.hidden = !entry.calls.length;
    },
  };
}

const CALL_STATES = {
  planned: ["subagents", "to come"],
  waiting: ["waiting", "waits for you"],
  running: ["running", "running"],
  done: ["completed", "done"],
  failed: ["error", "failed"],
  denied: ["canceled", "denied"],
  canceled: ["canceled", "canceled"],
};

function callView({ name, args, child, agency }) {
  const state = h("span");
  const status = h("span", { class: "status" }, h("span", { class: "dot", "aria-hidden": "true" }), state);
  const result = h("pre", { tabindex: "0" });
  const resultPart = h("div", {}, h("h4", {}, "Result"), result);
  const details = h(
    "details",
    {},
    h("summary", {}, h("code", {}, name), h("span", { class: "brief" }, brief(args)), status),
    h("h4", {}, "Arguments"),
    h("pre", { tabindex: "0" }, pretty(args)),
    resultPart,
  );
  const node = h("li", { class: "call" }, details);
  let link = null;
  return {
    node,
    update(call) {
      const [kind, words] = CALL_STATES[call.state];
      status.dataset.kind = kind;
      setText(state, words);
      resultPart.hidden = call.result === null;
      setText(result, call.result ?? "");
      if (call.child && link === null) {
        link = childView(agency, call.child);
        node.append(link.node);
      }
      link?.update(call.child);
    },
  };
}

/** The way to a subagent's own thread. */
function childView(agency, { childThreadId, agentType }) {
  const status = statusView();
  return {
    node: h("a", { class: "child", href: address(agency.id, childThreadId) }, `${agentType}’s thread`, status.node),
    update(child) {
      const now = agency.threads.get(childThreadId) ?? { status: child.completedAt ? child.status : "running" };
      status.node.hidden = now.status === "completed"; // then the call is done, too
      status.update(now);
    },
  };
}

/** What the model is saying right now. */
function liveView() {
  const who = h("span", { class: "who" });
  const text = h("div", { class: "text" });
  const node = h("article", { class: "entry live", "data-role": "assistant", hidden: true }, who, text);
  let said = null;
  return {
    node,
    update(agent, now) {
      setText(who, agent);
      node.hidden = now === null;
      if (now !== null && now !== said) text.replaceChildren(...markdown(now));
      said = now;
    },
  };
}

/** What follows the last message: messages on their way, what went wrong, and what to do if there is nothing. */
function tailView(thread) {
  const sent = h("div");
  const note = h("p", { class: "empty" });
  const problem = h("p", { class: "failure", role: "status" });
  return {
    node: h("div", { class: "tail" }, sent, problem, note),
    update(entries) {
      const joins = isActive(thread.status);
      keep(sent, thread.sent.map((message) => ({ ...message, joins })), ({ key }) => key, sentView);
      setText(problem, trouble(thread));
      problem.hidden = !problem.textContent;
      const silent = !entries && !thread.sent.length && !isActive(thread.status);
      setText(note, silent ? "Nothing was said yet. Write the first message below." : "");
    },
  };
}

function sentView() {
  const text = h("div", { class: "text" });
  const who = h("span", { class: "who" });
  return {
    node: h("article", { class: "entry sent", "data-role": "user" }, who, text),
    update(message) {
      setText(who, message.joins ? "You · joins at the next step" : "You");
      setText(text, message.text);
    },
  };
}

function trouble({ trouble: failed, envelope, status }) {
  if (failed?.retryAt) {
    return `The model failed: ${failed.message} (${failed.code}). It is asked again at ${clock(failed.retryAt)}.`;
  }
  if (status === "canceled") return "The run was canceled. A new message begins another.";
  const [error] = status === "error" ? (envelope?.errors ?? []) : [];
  return error ? `The run ended: ${error.message} (${error.code}). A new message begins another.` : "";
}

// Saying something.

function composerView(thread) {
  const text = h("textarea", { rows: "1", "aria-label": "Message", enterkeyhint: "send" });
  const send = h("button", { type: "submit", class: "main" }, "Send");
  const form = h("form", { class: "composer" }, h("div", { class: "row" }, text, send));
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  onSubmit(form, async () => {
    const said = text.value.trim();
    if (!said) return;
    await thread.send(said);
    if (text.value.trim() === said) text.value = "";
  });
  return {
    node: form,
    update() {
      text.placeholder = isActive(thread.status) ? "Add to the run in progress …" : "Write a message …";
    },
  };
}
