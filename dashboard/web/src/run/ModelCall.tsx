// A model call, whole: what was sent, by which middleware, and what came back.

import { type ReactNode, useState } from "react";
import { useLoad } from "@/api/hooks";
import { getModelCall } from "@/api/threads";
import type { Message, ModelCall, ToolSpec } from "@/api/types";
import css from "@/run/ModelCall.module.css";
import { Section } from "@/run/Section";
import { clock, count, duration, money, number, pretty, type Tone } from "@/text/format";
import { CopyButton } from "@/ui/CopyButton";
import { Dialog } from "@/ui/Dialog";
import { Loading } from "@/ui/Empty";
import { Failed } from "@/ui/Failed";
import { Mark } from "@/ui/Status";

interface Props {
  agency: string;
  thread: string;
  /** An event of the call. */
  seq: number;
}

/** Opens the model call that an event tells of. */
export function ModelCallButton({ quiet = false, ...call }: Props & { quiet?: boolean }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" className={`button small ${quiet ? "quiet" : ""}`} onClick={() => setOpen(true)}>
        Model call
      </button>
      {open && <ModelCallDialog {...call} onClose={() => setOpen(false)} />}
    </>
  );
}

function ModelCallDialog({ agency, thread, seq, onClose }: Props & { onClose(): void }) {
  const { data, problem, reload } = useLoad(`${agency}/${thread}/${seq}`, () => getModelCall(agency, thread, seq));
  return (
    <Dialog title="Model call" wide onClose={onClose}>
      {data ? <Whole call={data} /> : problem ? <Failed problem={problem} retry={reload} /> : <Loading />}
    </Dialog>
  );
}

const TONES: Record<ModelCall["status"], Tone> = {
  running: "running",
  success: "ok",
  failure: "bad",
  canceled: "idle",
};

function Whole({ call }: { call: ModelCall }) {
  const { request, reply, error } = call;
  return (
    <div className={css.whole}>
      <dl className={css.facts}>
        <Fact name="Model">{call.model}</Fact>
        <Fact name="Asked by">{call.by}</Fact>
        <Fact name="Status">
          <Mark tone={TONES[call.status]}>{call.status}</Mark>
        </Fact>
        <Fact name="Error">{error && `${error.message} (${error.code})`}</Fact>
        <Fact name="Step">{number(call.turn)}</Fact>
        <Fact name="Began">{clock(call.startedAt)}</Fact>
        <Fact name="First text">{call.firstTokenMs === null ? null : duration(call.firstTokenMs)}</Fact>
        <Fact name="Took">{call.tookMs === null ? null : duration(call.tookMs)}</Fact>
        <Fact name="Attempts">{call.attempts > 1 ? number(call.attempts) : null}</Fact>
        <Fact name="Tokens">{call.usage && `${number(call.usage.input)} in, ${number(call.usage.output)} out`}</Fact>
        <Fact name="Cost">{call.usage && money(call.costUsd)}</Fact>
        <Fact name="Ended">{call.stop}</Fact>
        <Fact name="Provider’s id">{call.requestId}</Fact>
      </dl>
      <div className="row wrap">
        {call.curl && <Copied label="Copy as curl" text={call.curl} />}
        {call.python && <Copied label="Copy as Python" text={call.python} />}
        <Copied label="Copy as JSON" text={JSON.stringify(call, null, 2)} />
      </div>
      {call.traceback && <Section title="Traceback" text={call.traceback} />}
      {request ? (
        <>
          {request.prompt.map((part, at) => (
            <Section key={at} title={part.by ? `Prompt, by ${part.by}` : "Prompt"} text={part.text} />
          ))}
          <Group title={count(request.messages.length, "message")} open>
            {request.messages.map((message, at) => (
              <Said key={at} message={message} />
            ))}
          </Group>
          <Group title={count(request.tools.length, "tool")}>
            {request.tools.map((tool) => (
              <Tool key={tool.name} tool={tool} />
            ))}
          </Group>
          <Section title="Parameters" text={pretty(set(request.params))} />
        </>
      ) : (
        <p className="faint">What was sent is not known: {call.missing}.</p>
      )}
      {reply && <Said message={reply} title="Reply" />}
    </div>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  if (children === null || children === undefined || children === "") return null;
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

function Copied({ label, text }: { label: string; text: string }) {
  return (
    <span className={css.copied}>
      {label.replace("Copy as ", "")}
      <CopyButton label={label} text={() => text} />
    </span>
  );
}

function Group({ title, open = false, children }: { title: string; open?: boolean; children: ReactNode }) {
  return (
    <details className={css.group} open={open}>
      <summary>{title}</summary>
      <div className={css.inside}>{children}</div>
    </details>
  );
}

function Said({ message, title }: { message: Message; title?: string }) {
  const { content, toolCalls, images, origin, role } = message;
  const calls = toolCalls.map((call) => `→ ${call.name} ${JSON.stringify(call.args, null, 2)}`);
  const pictures = images?.length ? [`(${count(images.length, "image")})`] : [];
  const who = title ?? `${role.charAt(0).toUpperCase()}${role.slice(1)}`;
  return (
    <Section title={who} text={[content, ...pictures, ...calls].filter(Boolean).join("\n")}>
      {origin && <span className="tag">{origin}</span>}
    </Section>
  );
}

function Tool({ tool }: { tool: ToolSpec }) {
  return <Section title={tool.name} text={`${tool.description}\n\n${pretty(tool.parameters)}`.trim()} />;
}

/** The parameters that say something. */
function set(params: object): object {
  return Object.fromEntries(
    Object.entries(params).filter(([, value]) => value !== null && !(Array.isArray(value) && !value.length)),
  );
}
