import { LucideProvider } from "lucide-react";
import { useEffect, useState } from "react";
import { agencies, loadAgencies } from "@/agencies/agencyList";
import { retryAll } from "@/api/connection";
import { Shell } from "@/app/Shell";
import { SignIn } from "@/app/SignIn";
import { closeAll } from "@/live/hooks";
import { useStore } from "@/live/store";
import { Boundary } from "@/ui/Boundary";

/** The page. Signing in again opens all connections and loads all data again. */
export function App() {
  const [session, setSession] = useState(0);
  return (
    <LucideProvider size={16} strokeWidth={2.25}>
      <Boundary>
        <Session
          key={session}
          renew={() => {
            closeAll();
            setSession((number) => number + 1);
          }}
        />
      </Boundary>
    </LucideProvider>
  );
}

function Session({ renew }: { renew(): void }) {
  const { problem } = useStore(agencies);
  const [refused, setRefused] = useState(false);
  useEffect(() => {
    void loadAgencies();
    const back = () => {
      if (!document.hidden) retryAll();
    };
    addEventListener("online", back);
    document.addEventListener("visibilitychange", back);
    return () => {
      removeEventListener("online", back);
      document.removeEventListener("visibilitychange", back);
    };
  }, []);
  // The list and an agency's feed may both be refused, one after the other: one form, so that typed text stays.
  const signedOut = refused || problem?.status === 401;
  return signedOut ? <SignIn onDone={renew} /> : <Shell onRefused={() => setRefused(true)} />;
}
