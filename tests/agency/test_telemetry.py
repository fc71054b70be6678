"""Traces: what a run looks like in OpenTelemetry, in whichever processes it happened."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from agency import (
    AgentSystem,
    DefinitionError,
    LocalRuntime,
    ModelError,
    ModelReply,
    ModelRequest,
    StoreError,
    Thread,
    Tool,
    ToolError,
    Usage,
    tool,
)
from agency.events import EventType
from agency.models.interface import Capability
from agency.store import sqlite
from agency.store.store import EVENT_TYPES
from agency.telemetry import TracingObserver
from agency.testing import Line, Script, ScriptedModel, call
from middleware import hitl, subagents
from tests.support.thread_files import query

PATIENCE = 10.0


@tool(safe=True)
async def shout(word: str) -> str:
    return word.upper()


@tool
async def fail(why: str) -> str:
    raise ToolError(why, kind="unavailable")


def collector(**options: Any) -> tuple[TracerProvider, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False, **options)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def system_of(
    script: Script, observer: TracingObserver, *tools: Tool, chained: ScriptedModel | None = None, **agent: Any
) -> AgentSystem:
    models = {"scripted": ScriptedModel(script), "chained": chained or ScriptedModel([])}
    system = AgentSystem("scripted:any", providers=models).use(hitl).use(subagents)
    for each in (shout, fail, *tools):
        system.add_tool(each)
    system.observe(observer)
    system.add_agent(name="clerk", description="Does clerical work.", prompt="You are a clerk.", **agent)
    return system.add_agent(name="helper", description="Helps.", prompt="You help.")


async def run(system: AgentSystem, folder: Path, message: str = "go", thread_id: str = "t1") -> Thread:
    """A run to its end, in a runtime of its own."""
    async with LocalRuntime(system, folder) as runtime:
        thread = await runtime.create_thread("clerk", thread_id=thread_id)
        await thread.invoke(message)
        await thread.wait(PATIENCE)
        return thread


def context(span: ReadableSpan) -> SpanContext:
    found = span.get_span_context()
    assert found is not None
    return found


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def paths(spans: Iterable[ReadableSpan]) -> list[str]:
    """Each span after those that it is under."""
    known = {context(span).span_id: span for span in spans}

    def path(span: ReadableSpan) -> str:
        return span.name if span.parent is None else f"{path(known[span.parent.span_id])} / {span.name}"

    return sorted(path(span) for span in known.values())


async def test_a_run_is_a_tree_of_turns_model_calls_and_tool_calls(tmp_path: Path) -> None:
    provider, exporter = collector()
    both = ModelReply(
        tool_calls=(call("shout", word="a", call_id="c1"), call("shout", word="b", call_id="c2")),
        stop="tool_use",
        usage=Usage(input=100, output=10, cached_input=60, cache_write=7, reasoning=3),
    )
    thread = await run(system_of([both, "done"], TracingObserver(provider)), tmp_path)

    spans = exporter.get_finished_spans()
    top = "invoke_agent clerk"
    assert paths(spans) == [
        top,
        f"{top} / turn",
        f"{top} / turn",
        f"{top} / turn / chat any",
        f"{top} / turn / chat any",
        f"{top} / turn / execute_tool shout",
        f"{top} / turn / execute_tool shout",
    ]
    assert len({context(span).span_id for span in spans}) == len(spans)
    assert len({context(span).trace_id for span in spans}) == 1
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}
    common = {
        "gen_ai.conversation.id": thread.id,
        "gen_ai.agent.name": "clerk",
        "agency.id": "local",
        "agency.run.id": f"{thread.id}.1",
    }
    (root,) = named(exporter, top)
    assert (root.kind, attributes(root)) == (
        SpanKind.INTERNAL,
        common
        | {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": "scripted",
            "gen_ai.request.model": "any",
            "gen_ai.usage.input_tokens": 110,
            "gen_ai.usage.output_tokens": 15,
            "gen_ai.usage.cache_read.input_tokens": 60,
            "gen_ai.usage.cache_creation.input_tokens": 7,
            "gen_ai.usage.reasoning.output_tokens": 3,
            "agency.outcome": "completed",
        },
    )
    assert [attributes(turn) for turn in named(exporter, "turn")] == [
        common | {"agency.turn": 1},
        common | {"agency.turn": 2},
    ]
    first, last = named(exporter, "chat any")
    asked = common | {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "any",
    }
    assert (last.kind, attributes(last)) == (
        SpanKind.CLIENT,
        asked | {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5},
    )
    assert attributes(first)["gen_ai.usage.cache_read.input_tokens"] == 60
    assert [attributes(span) for span in named(exporter, "execute_tool shout")] == [
        common
        | {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "shout",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call_id,
        }
        for call_id in ("c1", "c2")
    ]


async def test_spans_begin_and_end_with_the_events_that_tell_of_it(tmp_path: Path) -> None:
    provider, exporter = collector()
    system = system_of([call("shout", word="a"), "done"], TracingObserver(provider))
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(PATIENCE)
        times = dict[EventType, list[int]]()
        for ts, code in query(tmp_path / f"{thread.id}.db", "SELECT ts, type FROM events ORDER BY seq"):
            times.setdefault(EVENT_TYPES[code], []).append(ts * 1_000_000)

    def spent(name: str) -> list[tuple[int | None, int | None]]:
        return [(span.start_time, span.end_time) for span in named(exporter, name)]

    begun, (done,) = times[EventType.RUN_TICK], times[EventType.AGENT_COMPLETED]
    assert spent("invoke_agent clerk") == [(times[EventType.RUN_STARTED][0], done)]
    assert spent("turn") == [(begun[0], begun[1]), (begun[1], done)]
    assert spent("chat any") == list(zip(times[EventType.MODEL_STARTED], times[EventType.MODEL_COMPLETED], strict=True))
    assert spent("execute_tool shout") == [(times[EventType.TOOL_STARTED][0], times[EventType.TOOL_OUTPUT][0])]


def delegating(request: ModelRequest) -> Line:
    match [message.content for message in request.messages]:
        case ["delegate"]:
            return [call("task", description="say hello", subagentType="helper", call_id="c1"), call("shout", word="a")]
        case ["say hello"]:
            return call("shout", word="hello")
        case _:
            return "all is well"


async def test_a_child_run_is_a_trace_of_its_own_and_linked_with_the_call_both_ways(tmp_path: Path) -> None:
    provider, exporter = collector()
    system = system_of(delegating, TracingObserver(provider), tags=["default", "subagents"])
    thread = await run(system, tmp_path, "delegate")

    (task,), (child,) = named(exporter, "execute_tool task"), named(exporter, "invoke_agent helper")
    assert child.parent is None
    assert [link.context.span_id for link in child.links] == [context(task).span_id]
    assert [link.context.trace_id for link in child.links] == [context(task).trace_id]
    assert [link.context.span_id for link in task.links] == [context(child).span_id]
    assert [link.context.trace_id for link in task.links] == [context(child).trace_id]
    assert context(task).trace_id != context(child).trace_id
    assert attributes(child)["gen_ai.conversation.id"] != thread.id
    assert attributes(task)["gen_ai.tool.call.id"] == "c1"
    assert task.start_time is not None and task.end_time is not None
    assert child.start_time is not None and child.end_time is not None
    assert task.start_time <= child.start_time <= child.end_time <= task.end_time
    assert [span.name for span in exporter.get_finished_spans() if span.links] == [child.name, task.name]


async def test_each_attempt_of_a_model_call_is_a_span_and_the_failed_one_says_why(tmp_path: Path) -> None:
    provider, exporter = collector()
    failures = iter([ModelError("slow down", model_code="ERR_RATE_LIMIT", retryable=True, retry_after_ms=1)])

    def script(request: ModelRequest) -> Line:
        return next(failures, "done")

    await run(system_of(script, TracingObserver(provider)), tmp_path)

    failed, answered = named(exporter, "chat any")
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, None)
    assert attributes(failed)["error.type"] == "ERR_RATE_LIMIT"
    assert "gen_ai.usage.input_tokens" not in attributes(failed)
    assert (answered.status.status_code, attributes(answered)["gen_ai.usage.input_tokens"]) == (StatusCode.UNSET, 10)
    assert context(failed).span_id != context(answered).span_id
    (root,), (turn,) = named(exporter, "invoke_agent clerk"), named(exporter, "turn")
    assert [span.parent and span.parent.span_id for span in (failed, answered)] == [context(turn).span_id] * 2
    assert root.status.status_code == turn.status.status_code == StatusCode.UNSET


async def test_the_next_model_of_a_chain_has_a_span_of_its_own_and_costs_are_told_where_they_are_known(
    tmp_path: Path,
) -> None:
    class Priced(ScriptedModel):
        def capabilities(self, model: str) -> frozenset[Capability]:
            return frozenset()

        def cost(self, model: str, usage: Usage) -> float | None:
            return 0.25

    provider, exporter = collector()

    def script(request: ModelRequest) -> Line:
        if request.model == "one":
            return ModelError("it is down", model_code="ERR_API", retryable=True)
        return "done" if request.messages[-1].role == "tool" else call("shout", word="a")

    system = system_of([], TracingObserver(provider), chained=Priced(script), model=["chained:one", "chained:two"])
    await run(system, tmp_path)

    assert attributes(named(exporter, "chat one")[0])["error.type"] == "ERR_API"
    costs = {span.name: attributes(span).get("agency.cost_usd") for span in exporter.get_finished_spans()}
    assert costs["chat one"] is None
    assert (costs["chat two"], costs["invoke_agent clerk"]) == (0.25, 0.5)
    assert attributes(named(exporter, "invoke_agent clerk")[0])["gen_ai.request.model"] == "two"


async def test_a_run_that_ends_as_an_error_says_so_from_top_to_bottom(tmp_path: Path) -> None:
    provider, exporter = collector()
    script: list[Line] = [call("fail", why="the shop is closed"), ModelError("who are you", model_code="ERR_AUTH")]
    await run(system_of(script, TracingObserver(provider)), tmp_path)

    told = [
        (span.name, attributes(span).get("error.type"), span.status.status_code)
        for span in exporter.get_finished_spans()
    ]
    assert told == [
        ("chat any", None, StatusCode.UNSET),
        ("execute_tool fail", "unavailable", StatusCode.ERROR),
        ("turn", None, StatusCode.UNSET),
        ("chat any", "ERR_AUTH", StatusCode.ERROR),
        ("turn", "ERR_AUTH", StatusCode.ERROR),
        ("invoke_agent clerk", "ERR_AUTH", StatusCode.ERROR),
    ]
    assert attributes(named(exporter, "invoke_agent clerk")[0])["agency.outcome"] == "error"


@pytest.mark.parametrize("during", ["chat any", "execute_tool hang"])
async def test_what_a_cancel_cuts_off_ends_with_the_run_and_is_no_error(tmp_path: Path, during: str) -> None:
    provider, exporter = collector()
    begun = asyncio.Event()

    @tool
    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def script(request: ModelRequest) -> Line:
        if during == "chat any":
            await hang.function()
        return call("hang")

    async with LocalRuntime(system_of(script, TracingObserver(provider), hang), tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await begun.wait()
        await thread.cancel()

    cut, root = named(exporter, during)[0], exporter.get_finished_spans()[-1]
    assert root.name == "invoke_agent clerk"
    assert [attributes(span)["agency.outcome"] for span in (cut, root)] == ["canceled", "canceled"]
    assert {span.status.status_code for span in exporter.get_finished_spans()} == {StatusCode.UNSET}
    assert {span.end_time for span in exporter.get_finished_spans()[-3:]} == {root.end_time}


async def test_a_run_that_waited_for_a_person_goes_on_in_the_same_trace_somewhere_else(tmp_path: Path) -> None:
    provider, exporter = collector()
    guarded: dict[str, Any] = {"tags": ["default", "hitl"], "config": {"hitl": {"tools": ["shout"]}}}
    script: list[Line] = [call("shout", word="a"), "done"]
    async with LocalRuntime(system_of(script, TracingObserver(provider), **guarded), tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(PATIENCE)
    assert [span.name for span in exporter.get_finished_spans()] == ["chat any"]

    async with LocalRuntime(system_of(script, TracingObserver(provider), **guarded), tmp_path) as runtime:
        again = await runtime.thread(thread.id)
        await again.approve()
        assert (await again.wait(PATIENCE)).data == "done"

    spans, top = exporter.get_finished_spans(), "invoke_agent clerk"
    assert paths(spans) == [
        top,
        f"{top} / turn",
        f"{top} / turn",
        f"{top} / turn / chat any",
        f"{top} / turn / chat any",
        f"{top} / turn / execute_tool shout",
    ]
    assert len({context(span).trace_id for span in spans}) == 1
    assert [span.name for span in spans if "agency.resumed" in attributes(span)] == ["turn", top]
    noted = [(event.name, dict(event.attributes or {})) for event in named(exporter, "turn")[0].events]
    assert noted == [("run.paused", {"agency.pause.reason": "hitl"}), ("run.resumed", {})]


class Died(StoreError):
    """What a process that is dead would say to its own commits."""


class Death:
    """From its n-th commit on, this process is dead: either the commit was not written, or it was and nobody heard."""

    def __init__(self, n: int, when: Literal["before", "after"]) -> None:
        self._n, self._when = n, when
        self._commits = count(1)
        self.came = asyncio.Event()

    def __call__(self, moment: Literal["before", "after"]) -> None:
        if self.came.is_set() or (moment == self._when and next(self._commits) == self._n):
            self.came.set()
            raise Died("it is dead")


@pytest.fixture
def no_death() -> Iterator[None]:
    yield
    sqlite.commit_hook = None


async def end_or_death(thread: Thread, death: Death) -> None:
    async def end() -> None:
        await thread.wait(PATIENCE)

    waiting = [asyncio.create_task(end()), asyncio.create_task(death.came.wait())]
    _, late = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in late:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def work_and_die(folder: Path, death: Death) -> list[ReadableSpan]:
    """A run with a child, during which the process dies and another one goes on; all that both have exported."""
    exported = list[ReadableSpan]()
    provider, exporter = collector()
    system = system_of(delegating, TracingObserver(provider), tags=["default", "subagents"])
    async with LocalRuntime(system, folder) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t1")
        await thread.invoke("delegate")
        sqlite.commit_hook = death
        await end_or_death(thread, death)
    sqlite.commit_hook = None
    exported += exporter.get_finished_spans()
    provider, exporter = collector()
    system = system_of(delegating, TracingObserver(provider), tags=["default", "subagents"])
    async with LocalRuntime(system, folder) as runtime:
        again = await runtime.thread("t1")
        assert (await again.wait(PATIENCE)).data == "all is well"
        await again.rest()
    return [*exported, *exporter.get_finished_spans()]


Told = Counter[tuple[int, str, str | None, int]]


def told(spans: Sequence[ReadableSpan]) -> Told:
    """What the spans say that does not depend on when they were: their traces, names, parents and links. Attempts that
    were lost with their process are left out, and so are their numbers: recoveries are events, too."""
    known = {context(span).span_id: span for span in spans}
    assert len(known) == len(spans), "one was exported twice"
    lasting = [span for span in spans if attributes(span).get("agency.outcome") != "lost"]
    return Counter((context(span).trace_id, span.name, _parent(span, known), len(span.links)) for span in lasting)


def _parent(span: ReadableSpan, known: Mapping[int, ReadableSpan]) -> str | None:
    """The name of its parent; a call that has asked a model is the only one that is no turn and no run."""
    if span.parent is None:
        return None
    parent = known.get(span.parent.span_id)
    return parent.name if parent is not None and parent.name.startswith("execute_tool") else "run"


@pytest.mark.parametrize("when", ["before", "after"])
async def test_wherever_a_process_dies_both_make_one_trace_and_no_span_is_wrong_or_there_twice(
    tmp_path: Path, no_death: None, when: Literal["before", "after"]
) -> None:
    whole = told(await work_and_die(tmp_path / "whole", Death(0, when)))
    assert whole.total() == 13

    lost = 0
    for n in count(1):
        death = Death(n, when)
        exported = await work_and_die(tmp_path / f"{n}", death)
        lost += sum(attributes(span).get("agency.outcome") == "lost" for span in exported)
        got = told(exported)
        if when == "before":
            assert got == whole, f"death before commit {n}"
        else:  # what the last commit ended, nobody has heard of
            assert got <= whole, f"death after commit {n}"
            assert whole.total() - got.total() <= 3, "a last reply ends its call, its turn and its run"
        assert all((span.end_time or 0) >= (span.start_time or 0) > 0 for span in exported)
        if not death.came.is_set():
            break
    assert n > 10
    assert lost > 1, "an attempt that ended with its process is a span of its own"


async def test_content_is_exported_only_if_that_was_asked_for(tmp_path: Path) -> None:
    script: list[Line] = [[call("shout", word="sesame"), call("fail", why="sesame is shut")], "sesame"]
    plain, spans = collector()
    await run(system_of(script, TracingObserver(plain)), tmp_path / "plain", "open sesame")
    assert "sesame" not in "".join(span.to_json() for span in spans.get_finished_spans()).lower()

    full, spans = collector()
    await run(system_of(script, TracingObserver(full, content=True)), tmp_path / "full", "open sesame")
    (shouted,), (failed,) = named(spans, "execute_tool shout"), named(spans, "execute_tool fail")
    assert attributes(shouted)["gen_ai.tool.call.arguments"] == '{"word":"sesame"}'
    assert attributes(shouted)["gen_ai.tool.call.result"] == "SESAME"
    assert failed.status.description == "Error: unavailable: sesame is shut"
    assert json.loads(attributes(named(spans, "invoke_agent clerk")[0])["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "sesame"}]}
    ]
    ours = {key for span in spans.get_finished_spans() for key in attributes(span) if key.startswith("gen_ai.")}
    assert ours <= {value for value in vars(gen_ai_attributes).values() if isinstance(value, str)}


async def test_what_else_the_process_traces_is_neither_parent_nor_touched(tmp_path: Path) -> None:
    provider, exporter = collector()
    observer = TracingObserver(provider)
    with provider.get_tracer("theirs").start_as_current_span("request") as request:
        await run(system_of(["done"], observer), tmp_path / "a")
        with provider.get_tracer("agency").start_as_current_span("inner") as inner:
            assert inner.get_span_context().trace_id == request.get_span_context().trace_id
    (root,) = named(exporter, "invoke_agent clerk")
    assert root.parent is None
    assert context(root).trace_id != request.get_span_context().trace_id
    assert len({context(span).span_id for span in exporter.get_finished_spans()}) == 5


async def test_a_sampler_takes_the_whole_run_or_nothing_of_it_in_every_process_alike(tmp_path: Path) -> None:
    kept: list[dict[str, int]] = []
    for process in ("a", "b"):
        provider, exporter = collector(sampler=ParentBased(TraceIdRatioBased(0.5)))
        for n in range(12):
            await run(system_of(["done"], TracingObserver(provider)), tmp_path / process, thread_id=f"t{n}")
        spans = exporter.get_finished_spans()
        threads = [attributes(span)["gen_ai.conversation.id"] for span in spans]
        kept.append({thread: threads.count(thread) for thread in threads})
    assert kept[0] == kept[1]
    assert set(kept[0].values()) == {3}
    assert 0 < len(kept[0]) < 12


async def test_without_a_provider_of_its_own_it_uses_the_global_one_as_soon_as_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, exporter = collector()
    system = system_of(["one", "two"], TracingObserver())
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("a")
        await thread.wait(PATIENCE)
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
        await thread.invoke("b")
        await thread.wait(PATIENCE)
    assert {attributes(span)["agency.run.id"] for span in exporter.get_finished_spans()} == {f"{thread.id}.2"}
    assert len(exporter.get_finished_spans()) == 3


async def test_nothing_is_made_where_opentelemetry_is_switched_off_or_samples_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unwanted, exporter = collector(sampler=ALWAYS_OFF)
    await run(system_of(["done"], TracingObserver(unwanted)), tmp_path / "unwanted")
    assert exporter.get_finished_spans() == ()

    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    off, exporter = collector()
    await run(system_of(["done"], TracingObserver(off)), tmp_path / "off")
    assert exporter.get_finished_spans() == ()


def test_a_provider_that_cannot_be_told_which_ids_to_use_is_refused() -> None:
    with pytest.raises(DefinitionError, match="a TracerProvider of opentelemetry-sdk"):
        TracingObserver(trace.NoOpTracerProvider())  # type: ignore[arg-type]  # which is the point


def test_without_opentelemetry_the_library_works_and_telemetry_says_what_to_install() -> None:
    program = """
import sys
sys.modules["opentelemetry"] = None
import agency
try:
    import agency.telemetry
except agency.DefinitionError as error:
    print(error)
"""
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == 'traces need OpenTelemetry: install the extra, as in pip install "agency[otel]"'
