// The left side: which agency, and its threads as a tree, each with what it is doing.

import { h, keep, setText } from "/assets/dom.js";
import { ago, statusOf } from "/assets/words.js";

export const address = (agency, thread) =>
  `#/${encodeURIComponent(agency)}${thread ? `/${encodeURIComponent(thread)}` : ""}`;

/** A run's status, as a dot and in words. */
export function statusView() {
  const words = h("span");
  const node = h("span", { class: "status" }, h("span", { class: "dot", "aria-hidden": "true" }), words);
  return {
    node,
    update(run) {
      const [kind, said] = statusOf(run);
      node.dataset.kind = kind;
      setText(words, said);
    },
  };
}

export function sidebar() {
  const agencies = document.getElementById("agencies");
  const empty = h("p", { class: "empty" });
  const list = h("ul", { class: "tree", "aria-labelledby": "threads-title" });
  const older = h("button", { type: "button", class: "quiet" }, "Show older threads");
  document.getElementById("threads").append(empty, list, older);
  let shown = null;
  older.addEventListener("click", () => shown?.loadOlder().catch((problem) => shown.line.restart(problem)));

  return {
    update({ agencies: known, agency, thread }) {
      shown = agency;
      keep(agencies, known, ({ id }) => id, option);
      if (agency) agencies.value = agency.id;
      const roots = agency?.tree() ?? [];
      const mark = (node) => ({ ...node, agency: agency.id, open: thread?.id, children: node.children.map(mark) });
      keep(list, roots.map(mark), (node) => `${agency.id}/${node.thread.id}`, branch);
      setText(empty, agency?.loaded && !roots.length ? "No threads yet. Start one with “New thread”." : "");
      older.hidden = !agency || agency.older === null;
    },
  };
}

function option() {
  const node = h("option");
  return {
    node,
    update({ id, name }) {
      node.value = id;
      setText(node, name);
    },
  };
}

function branch() {
  const name = h("span", { class: "name" });
  const when = h("time");
  const id = h("span", { class: "id" });
  const status = statusView();
  const link = h("a", {}, name, when, status.node, id);
  const children = h("ul");
  const node = h("li", {}, link);
  return {
    node,
    update({ thread, agency, open, children: below }) {
      link.href = address(agency, thread.id);
      if (thread.id === open) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
      setText(name, thread.agentType);
      setText(id, thread.id);
      setText(when, ago(thread.createdAt));
      when.dateTime = thread.createdAt;
      when.title = new Date(thread.createdAt).toLocaleString();
      status.update(thread);
      keep(children, below, (each) => each.thread.id, branch);
      if (below.length) node.append(children);
      else children.remove();
    },
  };
}
