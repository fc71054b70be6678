import { agencies } from "@/agencies/agencyList";
import css from "@/app/ConnectionNote.module.css";
import { useAgency, useThread } from "@/live/hooks";
import { useStore } from "@/live/store";

interface Line {
  connection: string;
  problem: { message: string } | null;
}

/** Says that there is no connection, as long as there is none. What is on the page stays. */
export function ConnectionNote({ agency, thread }: { agency: string | null; thread: string | null }) {
  if (agency !== null && thread !== null) return <OfThread agency={agency} thread={thread} />;
  if (agency !== null) return <OfAgency agency={agency} />;
  return <Note lines={[]} />;
}

function OfAgency({ agency }: { agency: string }) {
  return <Note lines={[useAgency(agency)]} />;
}

function OfThread({ agency, thread }: { agency: string; thread: string }) {
  return <Note lines={[useAgency(agency), useThread(agency, thread)]} />;
}

function Note({ lines }: { lines: readonly Line[] }) {
  const { problem } = useStore(agencies);
  const away = lines.find((line) => line.connection === "waiting");
  const why = away?.problem ?? (problem?.passes ? problem : null);
  const words = away || why ? `${why?.message ?? "The connection was lost."} Trying again …` : "";
  return (
    <div className={css.note} role="status" hidden={!words}>
      {words}
    </div>
  );
}
