// Elements, made and kept. Data goes into text nodes and attributes only: nothing in the dashboard parses HTML.
//
// A view is an element and how to bring it up to date: `{ node, update(item) }`. It is kept as long as what it shows is
// there, so that focus, open parts and half-written text survive every change around them.

/** An element with attributes, listeners (`onclick: …`) and children; null, undefined and false are left out. */
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const texts = new WeakMap();

/** Change a text only if it is another one: a selection in it stays, and long ones cost nothing. */
export function setText(node, text) {
  if (texts.get(node) !== text) node.textContent = text;
  texts.set(node, text);
}

const views = new WeakMap();

/** Make a container show these items, in this order, each in the view that it had before. */
export function keep(container, items, key, make) {
  const before = views.get(container) ?? new Map();
  const now = new Map();
  for (const item of items) {
    const name = key(item);
    const view = before.get(name) ?? make(item);
    view.update(item);
    now.set(name, view);
  }
  views.set(container, now);
  for (const [name, view] of before) if (!now.has(name)) view.node.remove();
  let at = container.firstElementChild;
  for (const { node } of now.values()) {
    if (node === at) at = at.nextElementSibling;
    else container.insertBefore(node, at);
  }
}

/** Run a form's work when it is submitted: once at a time, and what goes wrong is said in the form. */
export function onSubmit(form, work) {
  const problem = h("p", { class: "problem", role: "alert" });
  form.append(problem);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (form.getAttribute("aria-busy") === "true") return;
    form.setAttribute("aria-busy", "true");
    problem.textContent = "";
    try {
      await work(event.submitter);
    } catch (error) {
      problem.textContent = error.message;
    } finally {
      form.removeAttribute("aria-busy");
    }
  });
}
