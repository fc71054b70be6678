import { Trash2Icon } from "lucide-react";
import { lazy, Suspense, useEffect, useMemo, useState } from "react";
import { bytes, count } from "@/text/format";
import { Empty, Loading } from "@/ui/Empty";
import { IconButton } from "@/ui/IconButton";
import { saveFile } from "@/ui/saveFile";
import { CodeLines } from "@/views/files/CodeLines";
import { type Content, isMarkdown, LONG } from "@/views/files/content";
import { DiffView } from "@/views/files/DiffView";
import css from "@/views/files/Preview.module.css";
import { type Version, withCurrent } from "@/views/files/versions";

const Markdown = lazy(() => import("@/ui/Markdown"));

type Way = "page" | "text" | "changes";
const WORDS: Record<Way, string> = { page: "Preview", text: "Text", changes: "Changes" };

interface Props {
  path: string;
  content: Content;
  versions: readonly Version[];
  onDelete(): void;
}

/** A file, in the way that shows most of it. */
export function Preview({ path, content, versions, onDelete }: Props) {
  const text = content.kind === "text" ? content.text : null;
  const all = useMemo(() => withCurrent(versions, text), [versions, text]);
  const ways: Way[] = [];
  if (text !== null) {
    if (isMarkdown(path) && text.length <= LONG) ways.push("page");
    ways.push("text");
    if (all.length > 1) ways.push("changes");
  }
  const [wanted, want] = useState<Way | null>(null);
  const way = wanted !== null && ways.includes(wanted) ? wanted : (ways[0] ?? "text");
  return (
    <section className={css.preview} aria-label={path}>
      <header className={css.head}>
        <h2 className="cut mono" title={path}>
          {path}
        </h2>
        <span className="faint num grow">
          {bytes(content.blob.size)}
          {all.length > 1 && ` · ${count(all.length, "version")}`}
        </span>
        {ways.length > 1 && (
          <div className={css.ways} role="tablist" aria-label="How to show it">
            {ways.map((each) => (
              <button
                key={each}
                type="button"
                role="tab"
                className="button quiet small"
                aria-selected={way === each}
                onClick={() => want(each)}
              >
                {WORDS[each]}
              </button>
            ))}
          </div>
        )}
        <button
          type="button"
          className="button small"
          onClick={() => saveFile(content.blob, path.split("/").at(-1) ?? "file")}
        >
          Download
        </button>
        <IconButton icon={Trash2Icon} label={`Delete ${path}`} small onClick={onDelete} />
      </header>
      {content.kind === "image" ? (
        <Picture blob={content.blob} path={path} />
      ) : text === null ? (
        <Empty title="This file is neither text nor a picture.">
          <p>Download it to open it.</p>
        </Empty>
      ) : way === "page" ? (
        <div className={css.page}>
          <Suspense fallback={<Loading />}>
            <Markdown text={text} />
          </Suspense>
        </div>
      ) : way === "changes" ? (
        <DiffView versions={all} />
      ) : (
        <CodeLines text={text} path={path} />
      )}
    </section>
  );
}

function Picture({ blob, path }: { blob: Blob; path: string }) {
  const [address, setAddress] = useState<string | null>(null);
  const [size, setSize] = useState("");
  const [broken, setBroken] = useState(false);
  useEffect(() => {
    const made = URL.createObjectURL(blob);
    setAddress(made);
    setBroken(false);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  if (broken) return <Empty title="This picture cannot be shown." />;
  return (
    <div className={css.picture}>
      {address && (
        <img
          src={address}
          alt={path}
          onLoad={({ currentTarget: { naturalWidth, naturalHeight } }) => setSize(`${naturalWidth} × ${naturalHeight}`)}
          onError={() => setBroken(true)}
        />
      )}
      <span className="faint num">{size}</span>
    </div>
  );
}
