import { useEffect, useState } from "react";
import { useLoad } from "@/api/hooks";
import { searchThreads } from "@/api/threads";
import type { SearchHit } from "@/api/types";
import css from "@/app/sidebar/SearchHits.module.css";
import { Link } from "@/router/router";
import { to } from "@/router/routes";
import { ago, count } from "@/text/format";
import { useSettled } from "@/ui/useSettled";

const LEAST = 2;
const SOON_MS = 250;
const PAGE = 20;
const MOST = 100;

/** Below the tree, which knows titles only: threads in which the words were said. */
export function SearchHits({ agency, search }: { agency: string; search: string }) {
  const wanted = useSettled(search.trim(), SOON_MS);
  const [limit, setLimit] = useState(PAGE);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another search begins with its first page
  useEffect(() => setLimit(PAGE), [wanted]);
  const key = wanted.length < LEAST ? null : `${agency} ${limit} ${wanted}`;
  const { data, problem } = useLoad(key, () => searchThreads(agency, { q: wanted, limit }));
  if (key === null) return null;
  const hits = data?.hits ?? [];
  return (
    <section className={`${css.hits} scroll`} aria-label="Said in threads">
      <h3 className="title">
        Said in threads{" "}
        <span className="faint" role="status">
          {data ? (hits.length ? `${hits.length}${data.next === null ? "" : "+"}` : "nothing found") : ""}
        </span>
      </h3>
      {problem && <p className="faint">{problem.message}</p>}
      {data && data.behind > 0 && (
        <p className="faint">{count(data.behind, "thread is", "threads are")} still being read.</p>
      )}
      <ul>
        {hits.map((hit) => (
          <li key={hit.threadId}>
            <Link href={to.thread(agency, hit.threadId)}>
              <span className={css.line}>
                <strong className="cut grow">{hit.title ?? hit.agentType}</strong>
                <span className="faint num">{ago(hit.at ?? hit.updatedAt)}</span>
              </span>
              {hit.foundIn !== "title" && <Snippet hit={hit} />}
            </Link>
          </li>
        ))}
      </ul>
      {data?.next != null && limit < MOST && (
        <button type="button" className="button small quiet" onClick={() => setLimit(Math.min(MOST, limit + 2 * PAGE))}>
          More
        </button>
      )}
    </section>
  );
}

const WHO = { user: "User: ", assistant: "", title: "" } as const;

function Snippet({ hit }: { hit: SearchHit }) {
  return (
    <span className={css.snippet}>
      {WHO[hit.foundIn]}
      {hit.snippet.map(({ text, match }, at) => (match ? <mark key={at}>{text}</mark> : text))}
    </span>
  );
}
