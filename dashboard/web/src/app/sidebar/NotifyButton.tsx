import { BellIcon } from "lucide-react";
import { useState } from "react";
import { consent, switchNotifications } from "@/app/notifications";
import { IconButton } from "@/ui/IconButton";

/** Turns notifications on and off; it is not there where the browser has none. */
export function NotifyButton() {
  const [now, setNow] = useState(consent);
  if (now === "unavailable") return null;
  const label = {
    denied: "The browser does not allow notifications of this page",
    off: "Notify me when something waits for me",
    on: "Stop notifying me",
  }[now];
  return (
    <IconButton
      icon={BellIcon}
      label={label}
      disabled={now === "denied"}
      aria-pressed={now === "on"}
      onClick={async () => setNow(await switchNotifications(now !== "on"))}
    />
  );
}
