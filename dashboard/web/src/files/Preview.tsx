import { Trash2Icon } from "lucide-react";
import { lazy, type ReactNode, Suspense, useEffect, useState } from "react";
import { CodeLines } from "@/files/CodeLines";
import { type Content, isMarkdown, LONG } from "@/files/content";
import css from "@/files/Preview.module.css";
import { bytes } from "@/text/format";
import { Empty, Loading } from "@/ui/Empty";
import { IconButton } from "@/ui/IconButton";
import { saveFile } from "@/ui/saveFile";

const Markdown = lazy(() => import("@/ui/Markdown"));

/** One way to show a file. */
export interface Way {
  label: string;
  show(): ReactNode;
}

interface Props {
  path: string;
  content: Content;
  /** What is said about it besides its size. */
  about?: ReactNode;
  /** Ways to show its text besides those that every text has. */
  more?: readonly Way[];
  onDelete(): void;
}

/** A file, in the way that shows most of it. */
export function Preview({ path, content, about, more = [], onDelete }: Props) {
  const ways = content.kind === "text" ? [...waysOf(content.text, path), ...more] : [];
  const [wanted, want] = useState<string | null>(null);
  const way = ways.find((each) => each.label === wanted) ?? ways[0];
  return (
    <section className={css.preview} aria-label={path}>
      <header className={css.head}>
        <h2 className="cut mono" title={path}>
          {path}
        </h2>
        <span className="faint num grow">
          {bytes(content.blob.size)}
          {about}
        </span>
        {ways.length > 1 && (
          <div className={css.ways} role="tablist" aria-label="How to show it">
            {ways.map((each) => (
              <button
                key={each.label}
                type="button"
                role="tab"
                className="button quiet small"
                aria-selected={way?.label === each.label}
                onClick={() => want(each.label)}
              >
                {each.label}
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
      ) : way === undefined ? (
        <Empty title="This file is neither text nor a picture.">
          <p>Download it to open it.</p>
        </Empty>
      ) : (
        way.show()
      )}
    </section>
  );
}

function waysOf(text: string, path: string): Way[] {
  const lines: Way = { label: "Text", show: () => <CodeLines text={text} path={path} /> };
  const page: Way = {
    label: "Preview",
    show: () => (
      <div className={css.page}>
        <Suspense fallback={<Loading />}>
          <Markdown text={text} />
        </Suspense>
      </div>
    ),
  };
  return isMarkdown(path) && text.length <= LONG ? [page, lines] : [lines];
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
