import { useMemo, useState } from "react";
import { useAction } from "@/api/hooks";
import { deleteFile, writeFile } from "@/api/threads";
import { DropArea, UploadButton } from "@/files/DropArea";
import { FileTree } from "@/files/FileTree";
import { Preview } from "@/files/Preview";
import panes from "@/files/TreeAndContent.module.css";
import { tidy, treeOf } from "@/files/tree";
import { useThreadState, useThreadStore } from "@/live/hooks";
import { useQuery } from "@/router/router";
import { count } from "@/text/format";
import { Confirm } from "@/ui/Confirm";
import { Empty, Loading } from "@/ui/Empty";
import { Refusal } from "@/ui/Refusal";
import { Toolbar } from "@/ui/Toolbar";
import { DiffView } from "@/views/files/DiffView";
import { FileEditor } from "@/views/files/FileEditor";
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

  return (
    <DropArea label="The agent’s files" invites="Drop files to give them to the agent" onFiles={given}>
      <nav className={panes.side} aria-label="Files" data-open={path === null || undefined}>
        <Toolbar label="Files" slim>
          <span className="faint num grow" role="status">
            {upload.busy ? "Uploading …" : files.data && count(files.data.length, "file")}
          </span>
          <UploadButton label="Files to upload" onFiles={given} />
        </Toolbar>
        <Refusal problem={upload.problem ?? files.problem} />
        <div className={panes.tree}>
          <FileTree entries={tree} chosen={path} onChoose={setPath} />
        </div>
      </nav>
      <div className={panes.main} data-open={path !== null || undefined}>
        {path !== null && (
          <button type="button" className={`button quiet small ${panes.back}`} onClick={() => setPath(null)}>
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
            more={[
              ...(all.length > 1 ? [{ label: "Changes", show: () => <DiffView versions={all} /> }] : []),
              {
                label: "Edit",
                show: () => (
                  <FileEditor
                    agency={agency}
                    thread={thread}
                    path={path}
                    text={text ?? ""}
                    onSaved={() => {
                      void content.reload();
                      reloadFiles();
                    }}
                  />
                ),
              },
            ]}
            onDelete={() => setDeleting(path)}
          />
        )}
      </div>
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
    </DropArea>
  );
}
