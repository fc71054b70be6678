import { RefreshCwIcon } from "lucide-react";
import { useState } from "react";
import { useThreadState, useThreadStore } from "@/live/hooks";
import { CopyButton } from "@/ui/CopyButton";
import { Loading } from "@/ui/Empty";
import { IconButton } from "@/ui/IconButton";
import { saveFile } from "@/ui/saveFile";
import { Toolbar, ToolbarOption, ToolbarOptions } from "@/ui/Toolbar";
import { JsonTree } from "@/views/events/JsonTree";
import css from "@/views/events/StateView.module.css";
import type { ThreadViewProps } from "@/views/tabs";

const PARTS = ["state", "run", "envelope"] as const;
const WORDS = { state: "State", run: "Run", envelope: "Latest run in full" };

/** What the gateway says of the thread, as it is. */
export default function StateView({ agency, thread }: ThreadViewProps) {
  const found = useThreadState(agency, thread);
  const store = useThreadStore(agency, thread);
  const [part, setPart] = useState<(typeof PARTS)[number]>("state");
  const value = found[part];
  const text = () => JSON.stringify(value, null, 2);
  if (found.state === null) return <Loading what="Loading the state" />;
  return (
    <div className={css.view}>
      <Toolbar label="State">
        <ToolbarOptions legend="Which part">
          {PARTS.map((each) => (
            <ToolbarOption key={each} choiceOf="part" checked={part === each} onChange={() => setPart(each)}>
              {WORDS[each]}
            </ToolbarOption>
          ))}
        </ToolbarOptions>
        <span className="grow" />
        <IconButton icon={RefreshCwIcon} label="Load again" small onClick={() => store.refresh()} />
        <CopyButton label="Copy as JSON" text={text} />
        <button
          type="button"
          className="button small"
          onClick={() => saveFile(new Blob([text()], { type: "application/json" }), `${thread}-${part}.json`)}
        >
          JSON
        </button>
      </Toolbar>
      <div className={css.tree} role="region" aria-label={WORDS[part]} tabIndex={0}>
        <JsonTree key={part} value={value} />
      </div>
    </div>
  );
}
