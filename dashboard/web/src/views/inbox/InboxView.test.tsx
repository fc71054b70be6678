import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, it } from "vitest";
import { FakeGateway } from "@/testing/gateway";
import { approval, pendingCall } from "@/testing/samples";
import InboxView from "@/views/inbox/InboxView";

const ALL = "POST /agency/a/approvals";
const two = [
  approval("t1", { calls: [pendingCall("c1", { approvalId: "apr_1" })] }),
  approval("t2", { calls: [pendingCall("c2", { approvalId: "apr_2" })] }),
];

describe("the inbox", () => {
  it("says what comes here while nothing does", async () => {
    new FakeGateway().agency("a", {});
    render(<InboxView agency="a" />);
    expect(await screen.findByText("Nothing waits for you.")).toBeTruthy();
  });

  it("has the calls of all threads, with a way to the thread of each", async () => {
    new FakeGateway().agency("a", { approvals: two });
    render(<InboxView agency="a" />);
    expect(await screen.findByText("2 calls wait for you")).toBeTruthy();
    expect(screen.getAllByRole("link", { name: "worker" }).map((link) => link.getAttribute("href"))).toEqual([
      "/a/a/t/t1",
      "/a/a/t/t2",
    ]);
  });

  it("approves all of them in one request, and is empty then", async () => {
    const gateway = new FakeGateway().agency("a", { approvals: two });
    gateway.answers(ALL, { refused: [] }, { effect: () => gateway.agency("a", {}) });
    render(<InboxView agency="a" />);
    await userEvent.click(await screen.findByRole("button", { name: "Approve all" }));
    expect(gateway.bodies(ALL)).toEqual([
      expect.objectContaining({ decisions: { apr_1: { decision: "approve" }, apr_2: { decision: "approve" } } }),
    ]);
    expect(await screen.findByText("Nothing waits for you.")).toBeTruthy();
  });

  it("says which of them was refused", async () => {
    const refused = [{ approvalId: "apr_2", code: "ERR_DECIDED", message: "It was decided already." }];
    new FakeGateway().agency("a", { approvals: two }).answers(ALL, { refused });
    render(<InboxView agency="a" />);
    await userEvent.click(await screen.findByRole("button", { name: "Approve all" }));
    expect(await screen.findByText("It was decided already.")).toBeTruthy();
  });

  it("says so if there is no such agency", async () => {
    new FakeGateway().agency("a", {}).refuses("GET /agency/a/agents", 404, "there is no agency a");
    render(<InboxView agency="a" />);
    expect((await screen.findByRole("alert")).textContent).toContain("There is no agency a.");
  });
});
