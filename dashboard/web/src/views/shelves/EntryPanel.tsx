import { useState } from "react";
import { useLoad } from "@/api/hooks";
import { deleteEntry, readEntry } from "@/api/shelves";
import type { ShelfEntry } from "@/api/types";
import { contentOf, LONG } from "@/files/content";
import { Preview } from "@/files/Preview";
import { dateTime } from "@/text/format";
import { Confirm } from "@/ui/Confirm";
import { Empty, Loading } from "@/ui/Empty";
import { Refusal } from "@/ui/Refusal";
import { EntryEditor } from "@/views/shelves/EntryEditor";

interface Props {
  agency: string;
  shelf: string;
  path: string;
  /** What the list says about it: another version there means that the content has changed. */
  listed: ShelfEntry | undefined;
  onChanged(): Promise<void>;
  onDeleted(): Promise<void>;
}

/** One entry: its content, what is known about it, and ways to change and delete it. */
export function EntryPanel({ agency, shelf, path, listed, onChanged, onDeleted }: Props) {
  const found = useLoad(
    `${agency}/${shelf}/${path}`,
    async () => {
      const { blob, version } = await readEntry(agency, shelf, path);
      return { content: await contentOf(blob), version };
    },
    { changed: listed?.version },
  );
  const [deleting, setDeleting] = useState<string | null>(null);
  if (found.data === undefined) {
    return found.problem ? <Empty title={found.problem.message} alert /> : <Loading what={`Loading ${path}`} />;
  }
  const { content, version } = found.data;
  const edit = () => (
    <EntryEditor
      agency={agency}
      shelf={shelf}
      path={path}
      text={content.kind === "text" ? content.text : ""}
      version={version}
      refresh={async () => {
        await Promise.all([onChanged(), found.reload()]);
      }}
    />
  );
  const isEditable = content.kind === "text" && content.text.length <= LONG;
  return (
    <>
      <Refusal problem={found.problem} />
      <Preview
        path={path}
        content={content}
        about={
          <>
            {` · version ${version}`}
            {listed && ` · ${dateTime(listed.updatedAt)}`}
          </>
        }
        more={isEditable ? [{ label: "Edit", show: edit }] : []}
        onDelete={() => setDeleting(version)}
      />
      {deleting !== null && (
        <Confirm
          title={`Delete ${path}?`}
          deed="Delete"
          onClose={() => setDeleting(null)}
          act={async () => {
            try {
              await deleteEntry(agency, shelf, path, deleting);
            } catch (error) {
              void onChanged(); // what is there now is shown behind the dialog
              throw error;
            }
            await onDeleted();
          }}
        >
          No thread of the agency will find version {deleting} of it any more.
        </Confirm>
      )}
    </>
  );
}
