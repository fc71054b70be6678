"""Traces for OpenTelemetry, with the names of its GenAI conventions: an observer that exports spans.

    system = AgentSystem(…).observe(TracingObserver())

    invoke_agent {agent}          a run, and the root of its trace
    └── turn                      one model call and what it leads to
        ├── chat {model}          each attempt of it
        └── execute_tool {tool}   each attempt of each call

Large because spans are one trade: what begins one, what ends it, and the ids by which processes agree.

It needs the extra: `pip install "agency[otel]"`.

**A run outlives its process**, and spans of several processes must make one trace. So no id is random. The id of a
trace is a hash of the thread and the number of the run; the id of a span is a hash of the thread and the `seq` of the
event with which it began; the root's is one of the run. So a process that goes on with a run knows the ids of spans
that began elsewhere from the events that `Resumed` brings along.

A span is made when it ends, all at once, with the times of the events that began and ended it. Nothing is kept open: a
process that dies loses nothing but what its exporter had not sent yet, and the process that goes on exports what was
under way, from its true beginning, with `agency.resumed`. An event is observed by the one process that commits it, so
no span is exported twice. One is missing if a process dies between the commit that ends it and the export; none is ever
wrong.

**A child** is a thread of its own, and its run a trace of its own: they are linked, the child's run to the parent's
call and the call to the run. Neither has to know the other's events, because the id of a call that has started a child
is a hash of the child's thread.

**Ids of threads** must be unique wherever traces are gathered, as those that are made here are. If you give a thread
the id of one that is gone, its runs get that one's traces.

Spans hold no content: no arguments, no results, no messages of errors. `content=True` adds those that events hold, long
ones cut as events cut them. Prompts and replies are not in events, and so never here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import cast

from pydantic import JsonValue
from pydantic_core import to_json

from agency.errors import DefinitionError
from agency.events import EventType
from agency.messages import Usage
from agency.metadata import ThreadMetadata
from agency.observe.metrics import usage_of
from agency.observe.observers import ENDINGS, Observation, Resumed
from agency.store.store import run_id

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Tracer, TracerProvider
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    from opentelemetry.sdk.trace.sampling import Decision
    from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
    from opentelemetry.util.types import AttributeValue
except ImportError as missing:
    raise DefinitionError('traces need OpenTelemetry: install the extra, as in pip install "agency[otel]"') from missing

Attributes = dict[str, AttributeValue]

LOST = ("died", "stopped")
"""Why an attempt has no end of its own: its process went away."""

OTHER = "_OTHER"
"""OpenTelemetry's word for an error of which nothing more is known."""


@dataclass(slots=True)
class _RunSpan:
    """A span under way. `attributes` are known from its beginning, for samplers; `more` comes later."""

    id: int
    parent: int | None
    name: str
    began: int
    attributes: Attributes
    kind: SpanKind = SpanKind.INTERNAL
    more: Attributes = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    notes: list[tuple[str, int, Attributes]] = field(default_factory=list)
    ended: int = 0
    error: str | None = None
    message: str | None = None
    """What went wrong, in words; None if texts are not exported."""

    def end(self, at: int) -> _RunSpan:
        self.ended = max(at, self.began)
        return self

    def fail(self, error: str, message: str | None) -> None:
        self.error, self.message = error, message
        self.more["error.type"] = error


class TracingObserver:
    """`provider` is one of opentelemetry-sdk, and OpenTelemetry's global one if none is given. It keeps its sampler,
    its processors and its own ids; only spans made here have derived ones."""

    def __init__(self, provider: TracerProvider | None = None, *, content: bool = False) -> None:
        self._provider = provider
        self._content = content
        self._tracer: Tracer | None = None if provider is None else _tracer_of(provider)
        self._runs: dict[str, _RunTrace] = {}

    def observe(self, seen: Observation) -> None:
        if seen.type is EventType.RUN_STARTED:
            self._runs[seen.thread.id] = _RunTrace(seen.thread, seen.run, seen.at, self._content)
        run_trace = self._runs.get(seen.thread.id)
        if run_trace is None or run_trace.run != seen.run:
            return  # the run began before this observer was added
        for span in run_trace.see(seen):
            self._export(run_trace, span)
        if seen.type in ENDINGS:
            del self._runs[seen.thread.id]

    def resumed(self, run: Resumed) -> None:
        run_trace = self._runs[run.thread.id] = _RunTrace(run.thread, run.run, run.began, self._content)
        for seen in run.turn:
            run_trace.see(seen)  # what has ended was exported when it did
        run_trace.mark_resumed()

    def left(self, thread_id: str) -> None:
        self._runs.pop(thread_id, None)

    def flush(self) -> None:
        """Hand on the spans that the provider has gathered. A runtime does so when it is closed."""
        provider = self._provider or trace.get_tracer_provider()
        if isinstance(provider, TracerProvider):
            provider.force_flush()

    def _export(self, run_trace: _RunTrace, span: _RunSpan) -> None:
        tracer = self._tracer or self._global_tracer()
        if tracer is None:
            return
        wanted = _wanted.set((run_trace.trace, span.id))
        try:
            made = tracer.start_span(
                span.name,
                context=_under(run_trace, span, tracer),
                kind=span.kind,
                attributes=span.attributes,
                links=span.links,
                start_time=_ns(span.began),
            )
        finally:
            _wanted.reset(wanted)
        made.set_attributes(span.more)
        for name, at, attributes in span.notes:
            made.add_event(name, attributes, _ns(at))
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR, span.message))
        made.end(_ns(span.ended))

    def _global_tracer(self) -> Tracer | None:
        """Programs set up OpenTelemetry when they please, before or after their agents."""
        provider = trace.get_tracer_provider()
        if not isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
            self._tracer = _tracer_of(provider)
        return self._tracer


def _tracer_of(provider: trace.TracerProvider) -> Tracer | None:
    """A tracer whose spans get the ids that we want; None if OpenTelemetry is switched off."""
    if not isinstance(provider, TracerProvider):
        kind = type(provider)
        raise DefinitionError(
            f"a {kind.__module__}.{kind.__qualname__} does not let us choose the ids of spans, and a run that goes on "
            "in another process needs that: give TracingObserver a TracerProvider of opentelemetry-sdk"
        )
    tracer = provider.get_tracer("agency")
    if not isinstance(tracer, Tracer):
        return None
    tracer.id_generator = _DerivedIds()
    return tracer


_wanted: ContextVar[tuple[int, int] | None] = ContextVar("_wanted", default=None)
"""The trace and the span that are being made."""


class _DerivedIds(RandomIdGenerator):
    """The ids that are wanted; random ones for other users of this tracer."""

    def generate_trace_id(self) -> int:
        wanted = _wanted.get()
        return super().generate_trace_id() if wanted is None else wanted[0]

    def generate_span_id(self) -> int:
        wanted = _wanted.get()
        return super().generate_span_id() if wanted is None else wanted[1]

    def is_trace_id_random(self) -> bool:
        return False


def _under(run_trace: _RunTrace, span: _RunSpan, tracer: Tracer) -> Context:
    """Nothing but the span's parent: what else goes on in this process has nothing to do with it."""
    if span.parent is None:
        return Context()
    if run_trace.sampled is None:
        root = run_trace.root
        asked = tracer.sampler.should_sample(
            Context(), run_trace.trace, root.name, root.kind, root.attributes, root.links
        )
        run_trace.sampled = asked.decision is Decision.RECORD_AND_SAMPLE
    flags = TraceFlags(TraceFlags.SAMPLED if run_trace.sampled else TraceFlags.DEFAULT)
    parent = SpanContext(run_trace.trace, span.parent, is_remote=False, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(parent), Context())


class _RunTrace:
    """One run: its spans under way."""

    def __init__(self, thread: ThreadMetadata, run: int, began: int, content: bool) -> None:
        self.run = run
        self.trace = _trace_id(thread.agency_id, thread.id, run)
        self.sampled: bool | None = None
        """Whether the sampler wants this run. Its root is made last, so it is asked ahead."""
        self._thread = thread
        self._content = content
        self._common: Attributes = {
            "gen_ai.conversation.id": thread.id,
            "gen_ai.agent.name": thread.agent_type,
            "agency.id": thread.agency_id,
            "agency.run.id": run_id(thread.id, run),
        }
        self.root = _RunSpan(
            id=_run_span_id(thread.id, run),
            parent=None,
            name=f"invoke_agent {thread.agent_type}",
            began=began,
            attributes={"gen_ai.operation.name": "invoke_agent", **self._common},
            links=_link_to_call(thread) if run == 1 else [],
        )
        self._turn: _RunSpan | None = None
        self._model: _RunSpan | None = None
        self._calls: dict[str, _RunSpan] = {}
        self._attempt = 1
        """Which attempt of the model call this is."""
        self._attempts: dict[str, int] = {}
        """Which attempt of each call of the turn this is, if it is not the first."""

    def see(self, seen: Observation) -> list[_RunSpan]:
        """The spans that this has ended, the innermost first."""
        data = seen.data
        match seen.type:
            case EventType.RUN_TICK:
                ended = self._end_turn(seen.at)
                self._turn = self._begin(seen, self.root.id, "turn", {"agency.turn": cast(int, data["step"])})
                return ended
            case EventType.MODEL_STARTED:
                self._begin_model(seen)
            case EventType.MODEL_COMPLETED:
                return self._end_model(seen)
            case EventType.MODEL_ASKED:
                return [self._aside(seen)]
            case EventType.TOOL_STARTED:
                self._begin_call(seen)
            case EventType.TOOL_OUTPUT | EventType.TOOL_ERROR:
                return self._end_call(seen)
            case EventType.RUN_RECOVERED:
                self._note_recovery(seen)
            case EventType.MODEL_RETRIED:
                return self._model_again(seen)
            case EventType.TOOL_RETRIED:
                return self._call_again(seen)
            case EventType.SUBAGENT_SPAWNED:
                self._link_to_child(str(data["callId"]), str(data["childThreadId"]))
            case EventType.RUN_PAUSED | EventType.RUN_RESUMED:
                return self._pause(seen)
            case ending if ending in ENDINGS:
                return self._end_run(seen)
        return []

    def mark_resumed(self) -> None:
        """All that is under way began in an earlier activation."""
        for span in (self.root, self._turn, self._model, *self._calls.values()):
            if span is not None:
                span.more["agency.resumed"] = True

    # The run and its turns.

    def _begin(
        self, seen: Observation, parent: int, name: str, attributes: Attributes, kind: SpanKind = SpanKind.INTERNAL
    ) -> _RunSpan:
        own = _span_id(self._thread.id, str(seen.seq))
        return _RunSpan(own, parent, name, seen.at, {**attributes, **self._common}, kind)

    def _pause(self, seen: Observation) -> list[_RunSpan]:
        """It is noted on the turn. A run that has used up a limit pauses between two turns."""
        if self._turn is not None:
            said = {f"agency.pause.{key}": str(value) for key, value in seen.data.items()}
            self._turn.notes.append((seen.type.value, seen.at, {**said}))
        exhausted = seen.type is EventType.RUN_PAUSED and seen.data["reason"] == "exhausted"
        return self._end_turn(seen.at) if exhausted else []

    def _note_recovery(self, seen: Observation) -> None:
        """It is noted on the run, with what the event says: how many processes have worked on it, and why."""
        said = {f"agency.recovery.{key}": cast(AttributeValue, value) for key, value in seen.data.items()}
        self.root.notes.append((seen.type.value, seen.at, said))

    def _end_run(self, seen: Observation) -> list[_RunSpan]:
        turn, root = self._turn, self.root
        if seen.type is EventType.AGENT_ERROR:
            for span in (turn, root):
                if span is not None:
                    span.fail(str(seen.data["code"]), self._shown(seen.data["error"]))
        if seen.type is EventType.AGENT_COMPLETED and self._content:
            root.more["gen_ai.output.messages"] = _as_message(seen.data["result"])
        root.more["agency.outcome"] = _OUTCOMES[seen.type]
        return [*self._end_turn(seen.at), root.end(seen.at)]

    def _end_turn(self, at: int) -> list[_RunSpan]:
        """End the turn and whatever of it is still under way: it was cut off."""
        ended = [span.end(at) for span in (self._model, *self._calls.values()) if span is not None]
        for span in ended:
            span.more["agency.outcome"] = "canceled"
        if self._turn is not None:
            ended.append(self._turn.end(at))
        self._turn, self._model, self._calls = None, None, {}
        self._attempts.clear()
        return ended

    @property
    def _parent(self) -> int:
        return self.root.id if self._turn is None else self._turn.id

    # Model calls.

    def _begin_model(self, seen: Observation) -> None:
        self._model = self._new_model(seen, self._parent)
        provider, _, model = str(seen.data["model"]).partition(":")
        self.root.more.update({"gen_ai.provider.name": provider, "gen_ai.request.model": model})

    def _new_model(self, seen: Observation, parent: int) -> _RunSpan:
        provider, _, model = str(seen.data["model"]).partition(":")
        given: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
        }
        if self._attempt > 1 and seen.type is not EventType.MODEL_ASKED:
            given["agency.attempt"] = self._attempt
        return self._begin(seen, parent, f"chat {model}", given, SpanKind.CLIENT)

    def _aside(self, seen: Observation) -> _RunSpan:
        """A model that a tool or a middleware has asked: its one event tells how long that took."""
        call = self._calls.get(str(seen.data.get("callId")))
        span = self._new_model(seen, self._parent if call is None else call.id)
        span.began -= cast(int, seen.data["durationMs"])
        span.more["agency.asked_by"] = str(seen.data["by"])
        return self._ended_model(seen, span)

    def _end_model(self, seen: Observation) -> list[_RunSpan]:
        span, self._model, self._attempt = self._model, None, 1
        return [] if span is None else [self._ended_model(seen, span)]

    def _ended_model(self, seen: Observation, span: _RunSpan) -> _RunSpan:
        if "error" in seen.data:
            error = cast(dict[str, JsonValue], seen.data["error"])
            span.fail(str(error["code"]), self._shown(error["message"]))
        else:
            span.more.update(_usage(usage_of(seen.data["usage"]), seen.data.get("costUsd")))
            self.root.more.update(_usage(usage_of(seen.data["total"]), seen.data.get("totalCostUsd")))
        return span.end(seen.at)

    def _model_again(self, seen: Observation) -> list[_RunSpan]:
        """An attempt that was lost with its process ends here, and the next one begins. After one that has failed,
        `model.started` follows."""
        lost, self._attempt = self._model, cast(int, seen.data["attempt"])
        if seen.data["why"] not in LOST or lost is None:
            return []
        self._begin_model(seen)
        return [_lost(lost, seen.at)]

    # Tool calls.

    def _call_again(self, seen: Observation) -> list[_RunSpan]:
        """As `_model_again`; the lost attempt knows the arguments."""
        call = str(seen.data["callId"])
        self._attempts[call] = cast(int, seen.data["attempt"])
        if seen.data["why"] not in LOST or (lost := self._calls.pop(call, None)) is None:
            return []
        own = _span_id(self._thread.id, str(seen.seq))
        again = self._calls[call] = replace(lost, id=own, began=seen.at, more=dict(lost.more), links=[], notes=[])
        again.attributes = {**lost.attributes, "agency.attempt": self._attempts[call]}
        again.more.pop("agency.resumed", None)
        return [_lost(lost, seen.at)]

    def _begin_call(self, seen: Observation) -> None:
        name, call = str(seen.data["toolName"]), str(seen.data["callId"])
        given: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call,
            "gen_ai.tool.type": "function",
        }
        if (attempt := self._attempts.get(call)) is not None:
            given["agency.attempt"] = attempt
        span = self._calls[call] = self._begin(seen, self._parent, f"execute_tool {name}", given)
        if self._content:
            span.more["gen_ai.tool.call.arguments"] = _as_text(seen.data["args"])

    def _link_to_child(self, call: str, child: str) -> None:
        if (span := self._calls.get(call)) is not None:
            span.id = _call_span_id(child)
            trace_id = _trace_id(self._thread.agency_id, child, 1)
            span.links.append(Link(SpanContext(trace_id, _run_span_id(child, 1), is_remote=True)))

    def _end_call(self, seen: Observation) -> list[_RunSpan]:
        span, data = self._calls.pop(str(seen.data["callId"]), None), seen.data
        if span is None:
            return []
        if seen.type is EventType.TOOL_OUTPUT:
            if self._content:
                span.more["gen_ai.tool.call.result"] = _as_text(data["output"])
        elif data.get("kind") == "canceled":
            span.more["agency.outcome"] = "canceled"
        else:
            span.fail(str(data.get("kind", OTHER)), self._shown(data["error"]))
        return [span.end(seen.at)]

    def _shown(self, message: JsonValue) -> str | None:
        return str(message) if self._content else None


def _lost(span: _RunSpan, at: int) -> _RunSpan:
    """An attempt whose process went away. When it did is not known."""
    span.more["agency.outcome"] = "lost"
    return span.end(at)


_OUTCOMES: Mapping[EventType, str] = {
    EventType.AGENT_COMPLETED: "completed",
    EventType.AGENT_ERROR: "error",
    EventType.RUN_CANCELED: "canceled",
}


def _usage(usage: Usage, cost: JsonValue) -> Attributes:
    told: Attributes = {"gen_ai.usage.input_tokens": usage.input, "gen_ai.usage.output_tokens": usage.output}
    if usage.cached_input:
        told["gen_ai.usage.cache_read.input_tokens"] = usage.cached_input
    if usage.cache_write:
        told["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write
    if usage.reasoning:
        told["gen_ai.usage.reasoning.output_tokens"] = usage.reasoning
    if isinstance(cost, int | float):
        told["agency.cost_usd"] = float(cost)
    return told


def _as_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else to_json(value).decode()


def _as_message(result: JsonValue) -> str:
    return _as_text([{"role": "assistant", "parts": [{"type": "text", "content": _as_text(result)}]}])


def _link_to_call(thread: ThreadMetadata) -> list[Link]:
    """The call that has started this thread. A token begins with the number of the parent's run."""
    if thread.parent is None:
        return []
    run, _, _ = thread.parent.token.partition(".")
    trace_id = _trace_id(thread.agency_id, thread.parent.thread_id, int(run))
    return [Link(SpanContext(trace_id, _call_span_id(thread.id), is_remote=True))]


# Ids. A zero is no id, so there is none.


def _trace_id(agency: str, thread: str, run: int) -> int:
    return _hash(16, "trace", agency, thread, str(run))


def _run_span_id(thread: str, run: int) -> int:
    return _hash(8, "run", thread, str(run))


def _span_id(thread: str, seq: str) -> int:
    return _hash(8, "event", thread, seq)


def _call_span_id(child: str) -> int:
    return _hash(8, "call", child)


def _hash(size: int, *parts: str) -> int:
    return int.from_bytes(hashlib.blake2b("/".join(parts).encode(), digest_size=size).digest()) or 1


def _ns(ms: int) -> int:
    return ms * 1_000_000
