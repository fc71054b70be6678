import { render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, describe, expect, it } from "vitest";
import { FakeGateway } from "@/testing/gateway";
import ShelvesView from "@/views/shelves/ShelvesView";

const ENTRY = "/agency/a/shelf/notes/recipes/rye.md";
const entry = (path: string, version: string) => ({
  shelf: "notes",
  path,
  version,
  size: 5,
  createdAt: "2026-05-01T08:00:00.000Z",
  updatedAt: "2026-05-01T08:00:00.000Z",
});

/** A gateway with one shelf, and what is on it. */
class Shelf extends FakeGateway {
  has(version: string, text: string): this {
    return this.answers("GET /agency/a/shelf", { shelves: [{ name: "notes", entries: 1, size: 5 }] })
      .answers("GET /agency/a/shelf/notes", { entries: [entry("recipes/rye.md", version)], next: null })
      .answers(`GET ${ENTRY}`, text, { headers: { ETag: `"${version}"` } });
  }

  /** The headers of the last request of this kind. */
  headers(what: string) {
    return this.asked.filter((each) => each.what === what).at(-1)?.headers ?? {};
  }

  isEmpty(): this {
    return this.answers("GET /agency/a/shelf", { shelves: [] }).answers("GET /agency/a/shelf/notes", {
      entries: [],
      next: null,
    });
  }
}

const show = () => render(<ShelvesView agency="a" shelf="notes" />);
const open = async () => userEvent.click(await screen.findByRole("button", { name: /rye\.md/ }));
const edit = async (text: string) => {
  await open();
  await userEvent.click(await screen.findByRole("tab", { name: "Edit" }));
  await userEvent.clear(screen.getByRole("textbox", { name: "Text" }));
  await userEvent.type(screen.getByRole("textbox", { name: "Text" }), text);
  await userEvent.click(screen.getByRole("button", { name: "Save" }));
};

describe("shelves", () => {
  beforeEach(() => history.replaceState(null, "", "/a/a/shelves/notes"));

  it("are listed with their entries, and text is shown with its version", async () => {
    new Shelf().has("7", "# Rye");
    show();
    expect((await screen.findByRole("link", { name: /notes/ })).getAttribute("href")).toBe("/a/a/shelves/notes");
    await open();
    const shown = await screen.findByRole("region", { name: "recipes/rye.md" });
    expect(within(shown).getByText(/version 7/)).toBeTruthy();
    await userEvent.click(within(shown).getByRole("tab", { name: "Text" }));
    expect(within(shown).getByText("# Rye")).toBeTruthy();
    expect(location.search).toBe("?entry=recipes%2Frye.md");
  });

  it("say what they are for while there are none", async () => {
    new Shelf().isEmpty();
    show();
    expect(await screen.findByText("Nothing is on a shelf.")).toBeTruthy();
  });

  it("take a change only over the version that it began with", async () => {
    const gateway = new Shelf().has("7", "# Rye");
    gateway.answers(`PUT ${ENTRY}`, entry("recipes/rye.md", "8"), { effect: () => gateway.has("8", "# Oats") });
    show();
    await edit("# Oats");
    expect(gateway.headers(`PUT ${ENTRY}`)).toMatchObject({ "If-Match": '"7"' });
    expect(await screen.findByText("Saved as version 8.")).toBeTruthy();
  });

  it("show a conflict, and let the person take what is there", async () => {
    const gateway = new Shelf().has("7", "# Rye");
    const refusal = { detail: "its version is 9, not 7", code: "ERR_VERSION" };
    gateway.answers(`PUT ${ENTRY}`, refusal, { status: 412, effect: () => gateway.has("9", "# Theirs") });
    show();
    await edit("# Mine");
    expect(await screen.findByText(/you began with version 7, now it is 9/)).toBeTruthy();
    expect(screen.getByRole<HTMLButtonElement>("button", { name: "Save" }).disabled).toBe(true);
    await userEvent.click(screen.getByRole("button", { name: "Take what is there" }));
    expect(screen.getByRole<HTMLTextAreaElement>("textbox", { name: "Text" }).value).toBe("# Theirs");
    expect(screen.queryByText(/It was changed meanwhile/)).toBeNull();
  });

  it("let the person overwrite what is there after a conflict", async () => {
    const gateway = new Shelf().has("7", "# Rye");
    gateway.refuses(`PUT ${ENTRY}`, 412, "its version is 9, not 7", "ERR_VERSION");
    show();
    await edit("# Mine");
    gateway.has("9", "# Theirs");
    gateway.answers(`PUT ${ENTRY}`, entry("recipes/rye.md", "10"), { effect: () => gateway.has("10", "# Mine") });
    await userEvent.click(await screen.findByRole("button", { name: "Overwrite it with mine" }));
    expect(await screen.findByText("Saved as version 10.")).toBeTruthy();
    expect(gateway.headers(`PUT ${ENTRY}`)).toMatchObject({ "If-Match": '"9"' });
  });

  it("delete the version that was shown, after a question, and say if there is another", async () => {
    const gateway = new Shelf().has("7", "# Rye");
    gateway.refuses(`DELETE ${ENTRY}`, 412, "its version is 9, not 7", "ERR_VERSION");
    show();
    await open();
    await userEvent.click(await screen.findByRole("button", { name: "Delete recipes/rye.md" }));
    const asked = screen.getByRole("dialog", { hidden: true });
    await userEvent.click(within(asked).getByRole("button", { name: "Delete", hidden: true }));
    expect(await within(asked).findByText("Its version is 9, not 7.")).toBeTruthy();
    expect(gateway.headers(`DELETE ${ENTRY}`)).toMatchObject({ "If-Match": '"7"' });
    gateway.answers(`DELETE ${ENTRY}`, {}, { effect: () => gateway.isEmpty() });
    await userEvent.click(within(asked).getByRole("button", { name: "Delete", hidden: true }));
    expect(await screen.findByText("Nothing is on a shelf.")).toBeTruthy();
  });

  it("take an upload under a path that is free, and ask before they replace an entry", async () => {
    const gateway = new Shelf().has("7", "# Rye");
    const [free, taken] = ["PUT /agency/a/shelf/notes/new.txt", "PUT /agency/a/shelf/notes/old.txt"];
    gateway
      .answers("GET /agency/a/shelf/notes", { entries: [entry("old.txt", "3")], next: null })
      .answers(free, entry("new.txt", "8"))
      .answers(taken, entry("old.txt", "9"));
    show();
    await screen.findByRole("button", { name: /old\.txt/ });
    const picker = screen.getByLabelText("Files to put on the shelf");
    await userEvent.upload(picker, new File(["1"], "new.txt"));
    await waitFor(() => expect(gateway.headers(free)).toMatchObject({ "If-None-Match": "*" }));
    await userEvent.upload(picker, new File(["2"], "old.txt"));
    expect(await screen.findByText("There is something under these paths: old.txt")).toBeTruthy();
    expect(gateway.headers(taken)).toEqual({});
    await userEvent.click(screen.getByRole("button", { name: "Replace", hidden: true }));
    await waitFor(() => expect(gateway.headers(taken)).toMatchObject({ "If-Match": '"3"' }));
  });

  it("begin with an entry, whose path cannot lead to another address", async () => {
    const gateway = new Shelf().isEmpty();
    gateway.answers(`PUT ${ENTRY}`, entry("recipes/rye.md", "1"), { effect: () => gateway.has("1", "# Rye") });
    show();
    await userEvent.click(await screen.findByRole("button", { name: "New entry" }));
    const form = screen.getByRole("dialog", { hidden: true });
    await userEvent.type(within(form).getByLabelText("Path"), "../../agents");
    await userEvent.click(within(form).getByRole("button", { name: "Put it there", hidden: true }));
    expect(await within(form).findByText(/A path is like notes\/today.md/)).toBeTruthy();
    expect(gateway.asked.some(({ what }) => what.startsWith("PUT"))).toBe(false);
    await userEvent.clear(within(form).getByLabelText("Path"));
    await userEvent.type(within(form).getByLabelText("Path"), "recipes/rye.md");
    await userEvent.click(within(form).getByRole("button", { name: "Put it there", hidden: true }));
    await waitFor(() => expect(location.search).toBe("?entry=recipes%2Frye.md"));
    expect(gateway.headers(`PUT ${ENTRY}`)).toMatchObject({ "If-None-Match": "*" });
  });
});
