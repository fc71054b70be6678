// What waits for a person: each call with its arguments and risk, to be approved, denied with a reason, or edited.

import { Once, post, threadPath } from "/assets/api.js";
import { h, keep, onSubmit, setText } from "/assets/dom.js";
import { address } from "/assets/sidebar.js";
import { count, number, pretty } from "/assets/words.js";

/** Everything that the open thread and those below it wait for, as `{ key, threadId, agentType, call, own }`. */
function asked(agency, thread) {
  const below = new Set((thread.state?.subagents ?? []).map((each) => each.childThreadId));
  const others = agency.approvals.filter(({ threadId }) => below.has(threadId) || agency.descends(threadId, thread.id));
  const own = { threadId: thread.id, agentType: thread.state?.agentType, calls: thread.pending };
  return [own, ...others].flatMap(({ threadId, agentType, calls }) =>
    calls.map((call) => ({ key: `${threadId} ${call.id}`, threadId, agentType, call, own: threadId === thread.id })),
  );
}

/** The banner. `answered` is told of each thread that got an answer. */
export function waitingView(answered) {
  const title = h("h2", { class: "title", "aria-live": "polite" });
  const all = h("button", { type: "submit", class: "quiet" }, "Approve all");
  const head = h("form", { class: "row" }, title, all);
  const list = h("ul", { class: "asked" });
  const limit = limitView();
  const label = { class: "waiting", "aria-label": "Waiting for you", hidden: true };
  const node = h("section", label, head, list, limit.node);
  const once = new Once();
  let waiting = [];
  let agencyId = null;

  onSubmit(head, async () => {
    const threads = Map.groupBy(waiting, (each) => each.threadId);
    for (const [threadId, calls] of threads) {
      const decisions = Object.fromEntries(calls.map(({ call }) => [call.id, { decision: "approve" }]));
      await decide(once, agencyId, threadId, decisions);
      answered(threadId);
    }
  });

  return {
    node,
    update({ agency, thread }) {
      agencyId = agency.id;
      waiting = asked(agency, thread);
      setText(title, `${count(waiting.length, "call waits", "calls wait")} for you`);
      head.hidden = !waiting.length;
      all.hidden = waiting.length < 2;
      keep(list, waiting.map((each) => ({ ...each, agency: agency.id, answered })), ({ key }) => key, callView);
      limit.update(thread);
      node.hidden = !waiting.length && limit.node.hidden;
    },
  };
}

function decide(once, agency, thread, decisions) {
  return post(threadPath(agency, thread, "/approve"), once.body({ decisions }));
}

/** One call. Denying and editing open a part of their own, so that no click answers by accident. */
function callView(item) {
  const { call, own, agency, threadId, agentType } = item;
  const once = new Once();
  const reason = h("textarea", { rows: "2", placeholder: "The agent reads this.", "aria-label": "Why it is denied" });
  const args = h("textarea", { rows: "6", class: "code", spellcheck: "false", "aria-label": "Arguments as JSON" });
  const parts = {
    ask: h(
      "div",
      { class: "buttons" },
      h("button", { type: "submit", class: "main", value: "approve" }, "Approve"),
      h("button", { type: "button", onclick: () => show("edit", args) }, "Edit …"),
      h("button", { type: "button", onclick: () => show("deny", reason) }, "Deny …"),
    ),
    edit: part(args, h("button", { type: "submit", class: "main", value: "edit" }, "Approve with these arguments")),
    deny: part(reason, h("button", { type: "submit", class: "danger", value: "deny" }, "Deny")),
  };
  const shownArgs = h("pre", { class: "args", tabindex: "0" }, pretty(call.args));
  const form = h(
    "form",
    { "aria-label": `${call.name} waits for you` },
    h(
      "p",
      { class: "call-title" },
      h("code", {}, call.name),
      h("span", { class: "risk", "data-risk": call.risk }, `${call.risk} risk`),
      own ? null : h("span", { class: "hint" }, "asked by ", h("a", { href: address(agency, threadId) }, agentType)),
    ),
    call.note ? h("p", { class: "hint" }, call.note) : null,
    shownArgs,
    Object.values(parts),
  );

  function part(field, button) {
    const back = h("button", { type: "button", class: "quiet", onclick: () => show("ask") }, "Back");
    return h("div", { class: "part" }, field, h("div", { class: "buttons" }, button, back));
  }

  function show(name, field) {
    for (const [each, node] of Object.entries(parts)) node.hidden = each !== name;
    shownArgs.hidden = name === "edit";
    (field ?? parts.ask.querySelector("button")).focus();
  }

  for (const name of ["edit", "deny"]) parts[name].hidden = true;
  args.value = JSON.stringify(call.args, null, 2);
  onSubmit(form, async (button) => {
    await decide(once, agency, threadId, { [call.id]: decision(button?.value ?? "approve", reason.value, args.value) });
    item.answered(threadId);
  });
  return { node: h("li", {}, form), update() {} };
}

function decision(wanted, reason, args) {
  if (wanted === "deny") return { decision: "deny", reason: reason.trim() };
  return wanted === "edit" ? { decision: "edit", args: parsed(args) } : { decision: "approve" };
}

function parsed(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`That is not JSON yet: ${error.message}.`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new Error("The arguments are an object: begin with { and end with }.");
  }
  return value;
}

/** What a code says is used up: the limit's name, its unit, and what the run has used of it. */
const LIMITS = {
  TURNS: ["turns", "turns", ({ turns }) => turns],
  TIME: ["timeMs", "ms", ({ durationMs }) => durationMs],
  TOKEN: ["tokens", "tokens", ({ tokensUsed }) => tokensUsed.input + tokensUsed.output],
  COST: ["costUsd", "US dollars", ({ costUsd }) => costUsd],
};

/** A run that has used up a limit, or its agency's budget, goes on under a new one. */
function limitView() {
  const title = h("h2", { class: "title" });
  const said = h("p", { class: "hint" });
  const field = h("input", { type: "number", required: true });
  const label = h("label", {}, h("span"), field);
  const row = h("div", { class: "row" }, label, h("button", { class: "main" }, "Go on"));
  const form = h("form", { hidden: true }, title, said, row);
  let thread = null;
  let name = null;
  let code = null;
  onSubmit(form, () => {
    const change = { [name]: label.hidden ? null : Number(field.value) };
    return code.startsWith("ERR_AGENCY_") ? thread.changeBudget(change) : thread.liftLimits(change);
  });
  return {
    node: form,
    update(shown) {
      thread = shown;
      const [error] = shown.envelope?.meta.pauseReason === "exhausted" ? shown.envelope.errors : [];
      form.hidden = error === undefined;
      if (!error || error.code === code) {
        code = error ? code : null;
        return;
      }
      code = error.code;
      const [wanted, unit, usedOf] = Object.entries(LIMITS).find(([word]) => code.includes(word))[1];
      const shared = code.startsWith("ERR_AGENCY_");
      const used = shared ? null : usedOf(shown.envelope.meta);
      name = wanted;
      field.step = wanted === "costUsd" ? "any" : "1";
      field.min = wanted === "costUsd" ? "0" : "1";
      field.value = used === null ? "" : 2 * used;
      label.hidden = code === "ERR_AGENCY_COST_UNKNOWN"; // no sum would do: that limit has to go
      field.required = !label.hidden;
      setText(title, shared ? "The agency has used up its budget" : "The run has reached a limit");
      setText(said, used === null ? `${error.message}.` : `It has used ${number(used)} ${unit}. Give it more, or stop it.`);
      setText(label.firstChild, shared ? `New budget of the agency in ${unit}` : `New limit in ${unit}`);
    },
  };
}
