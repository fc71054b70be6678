import { useMemo, useState } from "react";
import { request, send } from "@/api/client";
import { useAction, useLoad } from "@/api/hooks";
import type { JsonObject } from "@/api/types";
import { BASE } from "@/router/base";
import { useQuery } from "@/router/router";
import { pretty } from "@/text/format";
import { CopyButton } from "@/ui/CopyButton";
import { Empty, Loading } from "@/ui/Empty";
import { PageHead } from "@/ui/PageHead";
import { Refusal } from "@/ui/Refusal";
import { saveFile } from "@/ui/saveFile";
import css from "@/views/api/ApiView.module.css";
import { type ApiDocument, documentOf, type Operation, sample, typeWords } from "@/views/api/document";

/** The API: every operation of the gateway's OpenAPI document, and a way to try it. Nothing comes from elsewhere. */
export default function ApiView() {
  const loaded = useLoad("openapi", async () => documentOf(await request<JsonObject>("/openapi.json")));
  const save = useAction(async () => saveFile(await (await send("/openapi.json")).blob(), "openapi.json"));
  const [search, setSearch] = useQuery("search");
  const [open, setOpen] = useQuery("operation");
  const found = useMemo(() => matching(loaded.data?.operations ?? [], search ?? ""), [loaded.data, search]);
  return (
    <>
      <PageHead title="API">
        <button type="button" className="button small" disabled={save.busy} onClick={() => void save.run()}>
          Download openapi.json
        </button>
      </PageHead>
      <section className="page scroll" aria-label="API">
        {loaded.problem ? (
          <Empty title={loaded.problem.message} alert />
        ) : loaded.data === undefined ? (
          <Loading what="Loading the API document" />
        ) : (
          <>
            <p className="soft">
              {loaded.data.title} {loaded.data.version}. Requests need a key as <code>Authorization: Bearer …</code> if
              the server has a secret; here they are made with yours.
            </p>
            <input
              type="search"
              className={css.search}
              aria-label="Search operations"
              placeholder="Search operations"
              value={search ?? ""}
              onChange={(event) => setSearch(event.target.value)}
            />
            {[...groups(found)].map(([tag, operations]) => (
              <section key={tag} className={css.group} aria-label={tag}>
                <h2 className="title">{tag}</h2>
                <ul>
                  {operations.map((each) => (
                    <li key={each.id} className={css.operation}>
                      <button
                        type="button"
                        className={css.line}
                        aria-expanded={open === each.id}
                        onClick={() => setOpen(open === each.id ? null : each.id)}
                      >
                        <span className={css.method} data-method={each.method}>
                          {each.method}
                        </span>
                        <span className={`${css.path} mono`}>{each.path}</span>
                        <span className={`${css.summary} soft`}>{each.summary}</span>
                      </button>
                      {open === each.id && loaded.data && <Details operation={each} schemas={loaded.data.schemas} />}
                    </li>
                  ))}
                </ul>
              </section>
            ))}
            {found.length === 0 && <Empty title="No operation matches." />}
          </>
        )}
      </section>
    </>
  );
}

function matching(operations: readonly Operation[], search: string): Operation[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return operations.filter(({ id, tag, summary, description }) => {
    const all = `${id} ${tag} ${summary} ${description}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
}

function groups(operations: readonly Operation[]): Map<string, Operation[]> {
  const found = new Map<string, Operation[]>();
  for (const each of operations) found.set(each.tag, [...(found.get(each.tag) ?? []), each]);
  return found;
}

interface DetailsProps {
  operation: Operation;
  schemas: ApiDocument["schemas"];
}

function Details({ operation, schemas }: DetailsProps) {
  const { description, parameters, body, answers } = operation;
  return (
    <div className={css.details}>
      {description && <p className={css.text}>{description}</p>}
      {parameters.length > 0 && (
        <table className={css.table}>
          <caption>Parameters</caption>
          <tbody>
            {parameters.map((each) => (
              <tr key={each.name}>
                <th scope="row" className="mono">
                  {each.name}
                  {each.required && <span title="required">*</span>}
                </th>
                <td className="faint">{each.in}</td>
                <td className="mono">{typeWords(each.schema)}</td>
                <td>{each.description}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {body && (
        <div>
          <h3>Body: {typeWords(body)}</h3>
          <Fields schema={body} schemas={schemas} />
        </div>
      )}
      <table className={css.table}>
        <caption>Answers</caption>
        <tbody>
          {answers.map(({ status, description, schema }) => (
            <tr key={status}>
              <th scope="row" className="num">
                {status}
              </th>
              <td>{description}</td>
              <td className="mono">{schema ? typeWords(schema) : ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <TryIt operation={operation} schemas={schemas} />
    </div>
  );
}

/** The fields of a body, one level deep. */
function Fields({ schema, schemas }: { schema: JsonObject; schemas: ApiDocument["schemas"] }) {
  const name = typeof schema.$ref === "string" ? (schema.$ref.split("/").at(-1) ?? "") : "";
  const whole = schemas[name] ?? schema;
  const required = Array.isArray(whole.required) ? whole.required : [];
  const fields = Object.entries((whole.properties ?? {}) as Record<string, JsonObject>);
  return (
    <table className={css.table}>
      <tbody>
        {fields.map(([field, part]) => (
          <tr key={field}>
            <th scope="row" className="mono">
              {field}
              {required.includes(field) && <span title="required">*</span>}
            </th>
            <td className="mono">{typeWords(part)}</td>
            <td>{typeof part.description === "string" ? part.description : ""}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function TryIt({ operation, schemas }: DetailsProps) {
  const { method, path, parameters, body } = operation;
  const [given, setGiven] = useState<Readonly<Record<string, string>>>({});
  const [typed, setTyped] = useState(() => (body ? pretty(sample(body, schemas)) : ""));
  const [answer, setAnswer] = useState<{ status: number; text: string } | null>(null);
  const filled = path.replace(/\{([^}:]+)[^}]*\}/g, (whole, name: string) =>
    given[name] ? encodeURIComponent(given[name]) : whole,
  );
  const query = new URLSearchParams(
    parameters.filter((each) => each.in === "query" && given[each.name]).map(({ name }) => [name, given[name] ?? ""]),
  ).toString();
  const address = query ? `${filled}?${query}` : filled;
  const go = useAction(async () => {
    setAnswer(null);
    const made = await send(address, {
      method,
      ...(body ? { body: typed, headers: { "Content-Type": "application/json" } } : {}),
    });
    const text = await made.text();
    setAnswer({ status: made.status, text: asRead(text) });
  });
  const missing = parameters.some((each) => each.required && !given[each.name]);
  return (
    <details className={css.attempt}>
      <summary>Try it</summary>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void go.run();
        }}
      >
        {parameters.map((each) => (
          <label key={each.name} className="field">
            <span>
              {each.name}
              {each.required && " *"}
            </span>
            <input
              value={given[each.name] ?? ""}
              onChange={(event) => setGiven({ ...given, [each.name]: event.target.value })}
            />
          </label>
        ))}
        {body && (
          <label className="field">
            <span>Body</span>
            <textarea
              className="mono"
              rows={Math.min(16, typed.split("\n").length + 1)}
              spellCheck={false}
              value={typed}
              onChange={(event) => setTyped(event.target.value)}
            />
          </label>
        )}
        <div className="row">
          <button type="submit" className="button primary" disabled={go.busy || missing}>
            {method} it
          </button>
          <code className="cut grow">{address}</code>
          <CopyButton text={() => curl(method, address, body ? typed : null)} label="Copy as curl" />
        </div>
        <Refusal problem={go.problem} />
        {answer && (
          <pre className={css.answer} role="status">
            {answer.status}
            {"\n"}
            {answer.text}
          </pre>
        )}
      </form>
    </details>
  );
}

function asRead(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** The same request in a terminal; the secret is left to its environment. */
function curl(method: string, address: string, body: string | null): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  const url = quoted(`${location.origin}${BASE}${address}`);
  const sent = body === null ? "" : ` -H 'Content-Type: application/json' -d ${quoted(body)}`;
  return `curl -X ${method} -H "Authorization: Bearer $AGENCY_SECRET"${sent} ${url}`;
}
