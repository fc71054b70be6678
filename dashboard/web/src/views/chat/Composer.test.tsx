import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ThreadStore } from "@/live/thread";
import { FakeGateway } from "@/testing/gateway";
import { Composer } from "@/views/chat/Composer";

const INVOKE = "POST /agency/a/agent/t/invoke";

// The menu’s file is large; on a busy machine the first load of it takes longer than a test waits.
beforeAll(() => import("@/ui/OpenableMenu"));

let gateway: FakeGateway;
let store: ThreadStore;
let threads = 0;

beforeEach(() => {
  const id = `t${++threads}`; // drafts stay with their thread, so that each test has another
  gateway = new FakeGateway().thread("a", id, []);
  store = new ThreadStore("a", id);
  gateway.answers(said(), { runId: `${id}.1`, status: "running" });
});
afterEach(() => store.close());

const said = () => INVOKE.replace("/t/", `/${store.id}/`);
const box = () => screen.getByRole<HTMLTextAreaElement>("textbox", { name: "Message" });

describe("the composer", () => {
  it("sends with enter, once, and is empty then", async () => {
    render(<Composer store={store} active={false} />);
    await userEvent.type(box(), " hello {Enter}");
    await waitFor(() => expect(box().value).toBe(""));
    expect(gateway.bodies(said())).toEqual([expect.objectContaining({ messages: [{ content: "hello" }] })]);
  });

  it("begins a new line with shift and enter", async () => {
    render(<Composer store={store} active={false} />);
    await userEvent.type(box(), "one{Shift>}{Enter}{/Shift}two");
    expect(box().value).toBe("one\ntwo");
    expect(gateway.bodies(said())).toEqual([]);
  });

  it("sends nothing if nothing is written", async () => {
    render(<Composer store={store} active={false} />);
    await userEvent.type(box(), "   {Enter}");
    expect(gateway.bodies(said())).toEqual([]);
  });

  it("keeps what was refused, says why, and sends it again under the same key", async () => {
    gateway.refuses(said(), 429, "too many requests");
    render(<Composer store={store} active={false} />);
    await userEvent.type(box(), "hello{Enter}");
    expect((await screen.findByRole("alert")).textContent).toBe("Too many requests.");
    expect(box().value).toBe("hello");
    await userEvent.type(box(), "{Enter}");
    const keys = gateway.bodies(said()).map((body) => (body as { idempotencyKey: string }).idempotencyKey);
    expect(keys).toHaveLength(2);
    expect(new Set(keys).size).toBe(1);
  });

  it("keeps what is half written while another thread is open", async () => {
    const { unmount } = render(<Composer store={store} active={false} />);
    await userEvent.type(box(), "half a thou");
    unmount();
    render(<Composer store={store} active={false} />);
    expect(box().value).toBe("half a thou");
  });

  it("lets the person choose when it is heard, only during a run", async () => {
    const { rerender } = render(<Composer store={store} active={false} />);
    expect(screen.queryByRole("button", { name: /^When it is heard/ })).toBeNull();
    rerender(<Composer store={store} active />);
    await userEvent.click(screen.getByRole("button", { name: "When it is heard: Next step" }));
    await userEvent.click(await screen.findByRole("menuitemradio", { name: /^Now/ }));
    await userEvent.type(box(), "stop that{Enter}");
    await waitFor(() => expect(gateway.bodies(said())).toEqual([expect.objectContaining({ when: "now" })]));
  });

  it("sends text files along, and shows which", async () => {
    render(<Composer store={store} active={false} />);
    await userEvent.upload(screen.getByLabelText("Files to attach"), new File(["# hi"], "a.md"));
    expect((await screen.findByRole("list", { name: "Attached files" })).textContent).toContain("a.md");
    await userEvent.type(box(), "read this{Enter}");
    await waitFor(() =>
      expect(gateway.bodies(said())).toEqual([expect.objectContaining({ files: { "/a.md": "# hi" } })]),
    );
    expect(screen.queryByRole("list", { name: "Attached files" })).toBeNull();
  });
});
