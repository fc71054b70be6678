// The right side: the thread's plan and files as they change, and its latest events.

import { openFile } from "/assets/dialogs.js";
import { h, keep, setText } from "/assets/dom.js";
import { EVENTS_SHOWN } from "/assets/thread.js";
import { clock, count, number, pretty } from "/assets/words.js";

const MARKS = { pending: "to do", in_progress: "in progress", completed: "done" };

export function details() {
  const plan = h("ol", { class: "plan" });
  const noPlan = h("p", { class: "empty" }, "No plan yet.");
  const files = h("ul", { class: "files" });
  const noFiles = h("p", { class: "empty" }, "No files yet.");
  const events = h("ol", { class: "events" });
  const noEvents = h("p", { class: "empty" }, "No events yet.");
  const many = h("span", { class: "hint" });
  const node = h(
    "div",
    {},
    h("section", {}, h("h2", { class: "title" }, "Plan"), plan, noPlan),
    h("section", {}, h("h2", { class: "title" }, "Files"), files, noFiles),
    h("section", {}, h("h2", { class: "title" }, "Events", many), events, noEvents),
  );
  let file = null;
  return {
    node,
    update(thread) {
      const { todos = [], files: found = {} } = thread.state ?? {};
      keep(plan, todos.map((todo, at) => ({ ...todo, at })), ({ at }) => at, todoView);
      noPlan.hidden = todos.length > 0;
      const open = (path, content) => (file = openFile(path, content));
      const listed = Object.entries(found).map(([path, content]) => ({ path, content, open }));
      keep(files, listed, ({ path }) => path, fileView);
      noFiles.hidden = listed.length > 0;
      if (file) file.update(found[file.path]);
      keep(events, [...thread.events].reverse(), ({ seq }) => seq, eventView);
      noEvents.hidden = thread.events.length > 0;
      setText(many, thread.last > EVENTS_SHOWN ? `the last ${EVENTS_SHOWN} of ${number(thread.last)}` : "");
    },
  };
}

function todoView() {
  const text = h("span");
  const state = h("span", { class: "unseen" });
  const node = h("li", {}, h("span", { class: "mark", "aria-hidden": "true" }), text, state);
  return {
    node,
    update({ content, status }) {
      node.dataset.status = status;
      setText(text, content);
      setText(state, ` (${MARKS[status] ?? status})`);
    },
  };
}

function fileView() {
  const name = h("span", { class: "name" });
  const size = h("span", { class: "hint" });
  let open = () => {};
  const node = h("li", {}, h("button", { type: "button", onclick: () => open() }, name, size));
  return {
    node,
    update(file) {
      open = () => file.open(file.path, file.content);
      setText(name, file.path);
      setText(size, count(file.content.length, "character"));
    },
  };
}

function eventView({ seq, type, ts, data }) {
  const inside = h("pre", { tabindex: "0" });
  const number = h("span", { class: "seq" }, String(seq));
  const name = h("span", { class: "type" }, type);
  const summary = h("summary", {}, number, name, h("time", { datetime: ts }, clock(ts)));
  const details = h("details", { ontoggle: () => setText(inside, pretty(data)) }, summary, inside);
  return { node: h("li", { "data-seq": seq }, details), update() {} };
}
