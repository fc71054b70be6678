// A notification of the browser when something begins to wait for a person while the page is not visible.

import { useEffect, useRef } from "react";
import type { Approval } from "@/api/types";
import { navigate } from "@/router/router";
import { to } from "@/router/routes";

const KEPT_AS = "agency.notify";

type Consent = "unavailable" | "denied" | "off" | "on";

export function consent(): Consent {
  if (!("Notification" in window)) return "unavailable";
  if (Notification.permission === "denied") return "denied";
  return Notification.permission === "granted" && localStorage.getItem(KEPT_AS) === "on" ? "on" : "off";
}

/** Asks the person if need be. */
export async function switchNotifications(on: boolean): Promise<Consent> {
  if (on && (await Notification.requestPermission()) === "granted") localStorage.setItem(KEPT_AS, "on");
  else localStorage.removeItem(KEPT_AS);
  return consent();
}

const keysOf = (approvals: readonly Approval[]) =>
  approvals.flatMap((each) =>
    each.calls.length ? each.calls.map((call) => `${each.threadId} ${call.id}`) : [`${each.threadId} ${each.runId}`],
  );

export function useNotifications(agency: string, approvals: readonly Approval[], loaded: boolean): void {
  const known = useRef<Set<string> | null>(null);
  useEffect(() => {
    if (!loaded) return;
    const before = known.current;
    known.current = new Set(keysOf(approvals));
    if (before === null || !document.hidden || consent() !== "on") return;
    for (const approval of approvals) {
      if (keysOf([approval]).every((key) => before.has(key))) continue;
      const names = approval.calls.map((call) => call.name).join(", ");
      const note = new Notification(`${approval.agentType} waits for you`, {
        body: names || "It has used up a limit.",
        tag: approval.threadId,
      });
      note.onclick = () => {
        window.focus();
        navigate(to.thread(agency, approval.threadId));
        note.close();
      };
    }
  }, [agency, approvals, loaded]);
}
