import { LibraryIcon, PlusIcon } from "lucide-react";
import { useMemo, useState } from "react";
import { useAction, useLoad } from "@/api/hooks";
import { ABSENT, listEntries, listShelves, MOST, writeEntry } from "@/api/shelves";
import { DropArea, UploadButton } from "@/files/DropArea";
import { FileTree } from "@/files/FileTree";
import panes from "@/files/TreeAndContent.module.css";
import { treeOf } from "@/files/tree";
import { Link, navigate, useQuery } from "@/router/router";
import { to } from "@/router/routes";
import { bytes, count, number } from "@/text/format";
import { Confirm } from "@/ui/Confirm";
import { Empty, Loading } from "@/ui/Empty";
import { Failed } from "@/ui/Failed";
import { PageHead } from "@/ui/PageHead";
import { Refusal } from "@/ui/Refusal";
import { Toolbar, ToolbarSearch } from "@/ui/Toolbar";
import { EntryPanel } from "@/views/shelves/EntryPanel";
import { NewEntry } from "@/views/shelves/NewEntry";
import css from "@/views/shelves/ShelvesView.module.css";

const EVERY_MS = 5_000;

interface Upload {
  path: string;
  file: File;
  /** What was under the path when the person chose it. */
  version: string;
}

/** What outlives threads: the agency's shelves, the entries of one, and one entry. */
export default function ShelvesView({ agency, shelf }: { agency: string; shelf: string | null }) {
  const shelves = useLoad(agency, () => listShelves(agency), { everyMs: EVERY_MS });
  const [prefix, setPrefix] = useState("");
  const page = useLoad(shelf === null ? null : `${shelf}/${prefix}`, () => listEntries(agency, shelf ?? "", prefix), {
    everyMs: EVERY_MS,
  });
  const [path, setPath] = useQuery("entry");
  const [adding, setAdding] = useState(false);
  const entries = page.data?.entries;
  const tree = useMemo(() => treeOf(entries ?? []), [entries]);
  const chosen = entries?.find((each) => each.path === path);
  const reload = async () => {
    await Promise.all([shelves.reload(), page.reload()]);
  };

  const upload = useAction(async (uploads: Upload[]) => {
    try {
      for (const { path, file, version } of uploads) await writeEntry(agency, shelf ?? "", path, file, version);
      const [only] = uploads;
      if (uploads.length === 1 && only) setPath(only.path);
    } finally {
      await reload();
    }
  });
  const [replacing, setReplacing] = useState<Upload[]>([]);
  const given = (folder: string, files: File[]) => {
    if (!files.length || shelf === null) return;
    const known = new Map((entries ?? []).map((each) => [each.path, each.version]));
    const uploads = files.map((file) => {
      const path = [...folder.split("/"), file.name].filter(Boolean).join("/");
      return { path, file, version: known.get(path) ?? ABSENT };
    });
    if (uploads.some((each) => each.version !== ABSENT)) setReplacing(uploads);
    else void upload.run(uploads);
  };

  if (shelves.data === undefined) {
    return (
      <>
        <PageHead title="Shelves" />
        {shelves.problem ? <Failed problem={shelves.problem} retry={() => void shelves.reload()} /> : <Loading />}
      </>
    );
  }
  return (
    <>
      <PageHead title="Shelves">
        <button type="button" className="button small" onClick={() => setAdding(true)}>
          <PlusIcon size={13} />
          New entry
        </button>
      </PageHead>
      <DropArea
        label="Shelves and their entries"
        invites={shelf === null ? null : `Drop files to put them on ${shelf}`}
        onFiles={given}
      >
        <nav className={panes.side} aria-label="Shelves" data-open={path === null || undefined}>
          <ul className={css.shelves}>
            {shelves.data.map((each) => (
              <li key={each.name}>
                <Link
                  className={css.shelf}
                  href={to.page(agency, "shelves", each.name)}
                  aria-current={each.name === shelf ? "page" : undefined}
                  onClick={() => setPrefix("")}
                >
                  <LibraryIcon size={14} />
                  <strong className="cut grow">{each.name}</strong>
                  <span className="faint num">
                    {number(each.entries)} · {bytes(each.size)}
                  </span>
                </Link>
              </li>
            ))}
          </ul>
          {shelf !== null && (
            <section className={css.entries} aria-label={`Entries of ${shelf}`}>
              <Toolbar label={`Entries of ${shelf}`} slim>
                <ToolbarSearch
                  label="Paths that begin with"
                  placeholder="Path begins with"
                  value={prefix}
                  onChange={setPrefix}
                />
                <UploadButton label="Files to put on the shelf" onFiles={given} />
              </Toolbar>
              <p className="faint num" role="status">
                {upload.busy ? "Uploading …" : entries && count(entries.length, "entry", "entries")}
                {page.data?.next != null && `, the first ${number(MOST)}: type how a path begins to see others`}
              </p>
              <Refusal problem={upload.problem ?? page.problem} />
              <div className={panes.tree}>
                <FileTree entries={tree} chosen={path} onChoose={setPath} />
              </div>
            </section>
          )}
        </nav>
        <div className={panes.main} data-open={path !== null || undefined}>
          {path !== null && (
            <button type="button" className={`button quiet small ${panes.back}`} onClick={() => setPath(null)}>
              ‹ Shelves
            </button>
          )}
          {shelf !== null && path !== null ? (
            <EntryPanel
              key={`${shelf}/${path}`}
              agency={agency}
              shelf={shelf}
              path={path}
              listed={chosen}
              onChanged={reload}
              onDeleted={async () => {
                setPath(null);
                await reload();
              }}
            />
          ) : (
            <Empty title={shelves.data.length ? "Choose an entry." : "Nothing is on a shelf."}>
              <p>A shelf keeps what outlives threads: memory, skills, knowledge, artifacts.</p>
              <p>Agents put it there, and so can you: press New entry, or drop files on a shelf that is open.</p>
            </Empty>
          )}
        </div>
      </DropArea>
      {adding && (
        <NewEntry
          agency={agency}
          shelf={shelf}
          shelves={shelves.data}
          onClose={() => setAdding(false)}
          onMade={async (made) => {
            setPrefix("");
            navigate(`${to.page(agency, "shelves", made.shelf)}?entry=${encodeURIComponent(made.path)}`);
            await reload();
          }}
        />
      )}
      {replacing.length > 0 && (
        <Confirm
          title={`Replace ${count(replacing.filter((each) => each.version !== ABSENT).length, "entry", "entries")}?`}
          deed="Replace"
          onClose={() => setReplacing([])}
          act={async () => {
            await upload.run(replacing);
          }}
        >
          There is something under these paths:{" "}
          {replacing
            .filter((each) => each.version !== ABSENT)
            .map((each) => each.path)
            .join(", ")}
        </Confirm>
      )}
    </>
  );
}
