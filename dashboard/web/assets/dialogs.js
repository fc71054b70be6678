// Dialogs: a new thread, a new agency, signing in, a file.

import { get, Once, post, secret } from "/assets/api.js";
import { h, onSubmit, setText } from "/assets/dom.js";
import { markdown } from "/assets/markdown.js";

function dialog(title, ...children) {
  const node = h("dialog", { "aria-label": title }, h("h2", {}, title), ...children);
  node.addEventListener("close", () => node.remove());
  document.body.append(node);
  node.showModal();
  return node;
}

function cancel() {
  return h("button", { type: "button", onclick: ({ target }) => target.closest("dialog").close() }, "Cancel");
}

function field(label, control) {
  return h("label", { class: "field" }, h("span", {}, label), control);
}

/** Start a thread; `done` is told its id. */
export function newThread(agency, done) {
  if (!agency.blueprints.length) {
    const advice = "This agency has no active blueprint. Add an agent to the system that is served.";
    dialog("New thread", h("p", {}, advice), h("div", { class: "buttons" }, cancel()));
    return;
  }
  const once = new Once();
  const choice = h("select", {}, agency.blueprints.map(({ name }) => h("option", { value: name }, name)));
  const about = h("p", { class: "hint" });
  const text = h("textarea", { rows: "4", placeholder: "What should it do?" });
  const buttons = h("div", { class: "buttons" }, h("button", { class: "main" }, "Start"), cancel());
  const form = h("form", {}, field("Agent", choice), about, field("First message", text), buttons);
  const describe = () => setText(about, agency.blueprints.find(({ name }) => name === choice.value).description);
  const latest = agency.tree()[0]?.thread.agentType;
  if (agency.blueprints.some(({ name }) => name === latest)) choice.value = latest;
  choice.addEventListener("change", describe);
  describe();
  const node = dialog("New thread", form);
  text.focus();
  onSubmit(form, async () => {
    const id = await agency.create(choice.value, text.value.trim(), once);
    node.close();
    done(id);
  });
}

/** Make an agency; `done` is told what it is. */
export function newAgency(done) {
  const once = new Once();
  const name = h("input", { required: true, maxlength: "200", placeholder: "Bakery" });
  const buttons = h("div", { class: "buttons" }, h("button", { class: "main" }, "Create"), cancel());
  const form = h("form", {}, field("Name", name), buttons);
  const node = dialog("New agency", form);
  onSubmit(form, async () => {
    const made = await post("/agencies", once.body({ name: name.value }));
    node.close();
    done(made);
  });
}

let signingIn = false;

/** Ask for the secret until it opens; then `done`. */
export function signIn(done) {
  if (signingIn) return;
  signingIn = true;
  const text = h("input", { type: "password", required: true, autocomplete: "off" });
  const advice = "This gateway wants its secret, or a key of an agency. It is kept until you close the tab.";
  const buttons = h("div", { class: "buttons" }, h("button", { class: "main" }, "Sign in"));
  const form = h("form", {}, h("p", { class: "hint" }, advice), field("Secret", text), buttons);
  const node = dialog("Sign in", form);
  node.addEventListener("cancel", (event) => event.preventDefault());
  onSubmit(form, async () => {
    secret.set(text.value);
    try {
      await get("/agencies?limit=1");
    } catch (problem) {
      secret.clear();
      text.select();
      throw problem;
    }
    signingIn = false;
    node.close();
    done();
  });
}

/** Show a file, and go on showing it as it changes. */
export function openFile(path, content) {
  const body = h("div", { class: "file", tabindex: "0" });
  const node = dialog(path, body, h("form", { method: "dialog", class: "buttons" }, h("button", {}, "Close")));
  node.classList.add("wide");
  let shown = null;
  const update = (now) => {
    if (now === undefined || now === shown) return;
    shown = now;
    if (path.endsWith(".md")) body.replaceChildren(...markdown(now));
    else body.replaceChildren(h("pre", {}, now));
  };
  update(content);
  return { path, update };
}
