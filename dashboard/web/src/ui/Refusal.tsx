import type { Problem } from "@/api/problem";

/** Why something did not work; it is told to those who do not see it, too. */
export function Refusal({ problem }: { problem: Problem | null }) {
  return (
    <p className="bad" role="alert" hidden={problem === null}>
      {problem?.message}
    </p>
  );
}
