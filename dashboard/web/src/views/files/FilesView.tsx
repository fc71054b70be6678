import { type DragEvent, useMemo, useRef, useState } from "react";
import { useAction } from "@/api/hooks";
import { deleteFile, writeFile } from "@/api/threads";
import { FileTree } from "@/files/FileTree";
import { Preview } from "@/files/Preview";
import { tidy, treeOf } from "@/files/tree";
import { useThreadState, useThreadStore } from "@/live/hooks";
import { useQuery } from "@/router/router";
import { count } from "@/text/format";
import { Confirm } from "@/ui/Confirm";
import { Empty, Loading } from "@/ui/Empty";
import { Refusal } from "@/ui/Refusal";
import { Toolbar } from "@/ui/Toolbar";
import { DiffView } from "@/views/files/DiffView";
import css from "@/views/files/FilesView.module.css";
import { useContent, useFiles } from "@/views/files/useFiles";
import { versionsOf, withCurrent } from "@/views/files/versions";
import type { ThreadViewProps } from "@/views/tabs";

interface Upload {
  path: string;
  file: File;
}

export default function FilesView({ agency, thread }: ThreadViewProps) {
  const { state } = useThreadState(agency, thread);
  const store = useThreadStore(agency, thread);
  const files = useFiles(agency, thread, state);
  const [path, setPath] = useQuery("file");
  const content = useContent(agency, thread, path, state);
  const versions = useMemo(() => versionsOf(state?.messages ?? []), [state?.messages]);
  const text = content.data?.kind === "text" ? content.data.text : null;
  const all = useMemo(() => withCurrent(versions.get(path ?? "") ?? [], text), [versions, path, text]);
  const tree = useMemo(() => treeOf(files.data ?? []), [files.data]);

  const reloadFiles = () => {
    void files.reload();
    store.refresh();
  };
  const upload = useAction(async (uploads: Upload[]) => {
    try {
      for (const { path, file } of uploads) await writeFile(agency, thread, path, file);
      const [only] = uploads;
      if (uploads.length === 1 && only) setPath(only.path);
    } finally {
      void content.reload(); // an upload may have replaced the open file
      reloadFiles();
    }
  });
  const [replacing, setReplacing] = useState<Upload[]>([]);
  const [deleting, setDeleting] = useState<string | null>(null);
  const given = (folder: string, chosen: File[]) => {
    if (!chosen.length) return;
    const uploads = chosen.map((file) => ({ path: tidy(`${folder}/${file.name}`), file }));
    const known = new Set((files.data ?? []).map((each) => each.path));
    if (uploads.some((each) => known.has(each.path))) setReplacing(uploads);
    else void upload.run(uploads);
  };

  const picker = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(0);
  const drag = (event: DragEvent, by: number) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    setOver((before) => Math.max(0, before + by));
  };

  return (
    <div
      className={css.view}
      role="group"
      aria-label="The agent’s files"
      onDragEnter={(event) => drag(event, 1)}
      onDragOver={(event) => drag(event, 0)}
      onDragLeave={(event) => drag(event, -1)}
      onDropCapture={() => setOver(0)}
      onDrop={(event) => {
        event.preventDefault();
        const folder = (event.target as Element).closest<HTMLElement>("[data-folder]")?.dataset.folder;
        given(folder ?? "", [...event.dataTransfer.files]);
      }}
    >
      <nav className={css.side} aria-label="Files" data-open={path === null || undefined}>
        <Toolbar label="Files" slim>
          <span className="faint num grow" role="status">
            {upload.busy ? "Uploading …" : files.data && count(files.data.length, "file")}
          </span>
          <button type="button" className="button small" onClick={() => picker.current?.click()}>
            Upload
          </button>
          <input
            ref={picker}
            type="file"
            multiple
            hidden
            aria-label="Files to upload"
            onChange={(event) => {
              given("", [...(event.target.files ?? [])]);
              event.target.value = "";
            }}
          />
        </Toolbar>
        <Refusal problem={upload.problem ?? files.problem} />
        <div className={css.tree}>
          <FileTree entries={tree} chosen={path} onChoose={setPath} />
        </div>
      </nav>
      <div className={css.main} data-open={path !== null || undefined}>
        {path !== null && (
          <button type="button" className={`button quiet small ${css.back}`} onClick={() => setPath(null)}>
            ‹ Files
          </button>
        )}
        {path === null ? (
          <Empty title={files.data?.length ? "Choose a file." : "No files yet."}>
            <p>Drop files here to give them to the agent, or press Upload.</p>
          </Empty>
        ) : content.problem ? (
          <Empty title={content.problem.message} alert />
        ) : content.data === undefined ? (
          <Loading what={`Loading ${path}`} />
        ) : (
          <Preview
            key={path}
            path={path}
            content={content.data}
            about={all.length > 1 && ` · ${count(all.length, "version")}`}
            more={all.length > 1 ? [{ label: "Changes", show: () => <DiffView versions={all} /> }] : []}
            onDelete={() => setDeleting(path)}
          />
        )}
      </div>
      {over > 0 && <div className={css.over}>Drop files to give them to the agent</div>}
      {deleting !== null && (
        <Confirm
          title={`Delete ${deleting}?`}
          deed="Delete"
          onClose={() => setDeleting(null)}
          act={async () => {
            await deleteFile(agency, thread, deleting);
            setPath(null);
            reloadFiles();
          }}
        >
          The agent will not find it any more.
        </Confirm>
      )}
      {replacing.length > 0 && (
        <Confirm
          title={`Replace ${count(replacing.length, "file")}?`}
          deed="Replace"
          onClose={() => setReplacing([])}
          act={async () => {
            await upload.run(replacing);
          }}
        >
          There are files with these names: {replacing.map((each) => each.path).join(", ")}
        </Confirm>
      )}
    </div>
  );
}
