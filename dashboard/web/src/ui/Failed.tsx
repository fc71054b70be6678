import type { Problem } from "@/api/problem";
import { Empty } from "@/ui/Empty";

/** In the place of what could not be loaded. */
export function Failed({ problem, retry }: { problem: Problem; retry(): void }) {
  return (
    <Empty title={problem.message} alert>
      <button type="button" className="button" onClick={retry}>
        Try again
      </button>
    </Empty>
  );
}
