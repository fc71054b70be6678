"""The figures that an observer keeps, against arithmetic by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agency import (
    AgentSystem,
    Approve,
    Deny,
    Edit,
    LocalRuntime,
    MetricsObserver,
    ModelError,
    ModelReply,
    ModelRequest,
    Observation,
    Resumed,
    ThreadMetadata,
    Tool,
    ToolCall,
    ToolError,
    Usage,
    events,
    tool,
)
from agency.events import NewEvent
from agency.observe import metrics
from agency.testing import Line, Script, ScriptedModel, call
from middleware import hitl

PATIENCE = 10.0
THREAD = ThreadMetadata(id="t1", agent_type="clerk", created_at="2026-01-01T00:00:00Z")
OTHER = THREAD.model_copy(update={"id": "t2"})
CALL = ToolCall(id="c1", name="charge", args={})
RUN_ENDS = events.agent_completed("done")

Timed = tuple[int, NewEvent]


def seen(timed: Iterable[Timed], thread: ThreadMetadata = THREAD) -> list[Observation]:
    return [Observation(thread, 1, seq, at, *event) for seq, (at, event) in enumerate(timed, 1)]


def watch(observer: MetricsObserver, *timed: Timed, thread: ThreadMetadata = THREAD) -> None:
    for one in seen(timed, thread):
        observer.observe(one)


def completed(usage: Usage, cost: float | None) -> NewEvent:
    return events.model_completed("scripted:any", usage, cost, usage, cost)


def turns(lengths: Sequence[int]) -> list[Timed]:
    """A run whose turns take so long, in milliseconds."""
    at, timed = 1_000, list[Timed]()
    for step, length in enumerate(lengths, 1):
        timed.append((at, events.run_tick(step)))
        at += length
    return [*timed, (at, RUN_ENDS)]


def test_nothing_was_seen_yet() -> None:
    assert MetricsObserver().snapshot().model_dump() == {
        "events": 0,
        "eventsByType": {},
        "warningsByKind": {},
        "tokens": {"input": 0, "output": 0, "cachedInput": 0, "cacheWrite": 0, "reasoning": 0},
        "cost": {"usd": 0.0, "knownUsd": 0.0, "unknownCalls": 0},
        "cache": {"hits": 0, "misses": 0, "hitRatio": None, "readTokens": 0},
        "models": {"calls": 0, "failuresByKind": {}, "retries": 0},
        "tools": {"callsByName": {}, "callsByType": {}, "errorsByName": {}, "errorsByKind": {}, "retries": 0},
        "errors": {"total": 0, "byKind": {}},
        "turns": {"count": 0, "latencyMsP50": None, "latencyMsP95": None},
        "approvals": {"pending": 0, "granted": 0, "denied": 0},
        "recoveries": 0,
    }


def test_tokens_costs_and_the_cache_add_up() -> None:
    observer = MetricsObserver()
    watch(
        observer,
        (1, events.model_started("scripted:any", 1)),
        (2, completed(Usage(input=100, output=10, cached_input=60, cache_write=5), 0.1)),
        (3, events.model_started("scripted:any", 1)),
        (4, completed(Usage(input=50, output=20, reasoning=7), 0.2)),
        (5, events.model_started("scripted:any", 1)),
        (6, completed(Usage(input=10, output=1, cached_input=10), 0.0)),
    )
    figures = observer.snapshot()
    assert figures.events == 6
    assert figures.tokens == Usage(input=160, output=31, cached_input=70, cache_write=5, reasoning=7)
    assert figures.cost.model_dump() == {"usd": 0.3, "knownUsd": 0.3, "unknownCalls": 0}
    assert figures.cache.model_dump() == {"hits": 2, "misses": 1, "hitRatio": 2 / 3, "readTokens": 70}
    assert figures.models.calls == 3


def test_a_cost_that_is_unknown_makes_the_sum_unknown_and_is_counted_apart() -> None:
    observer = MetricsObserver()
    watch(observer, (1, completed(Usage(input=1), 0.25)), (2, completed(Usage(input=1), None)))
    assert observer.snapshot().cost.model_dump() == {"usd": None, "knownUsd": 0.25, "unknownCalls": 1}


def test_calls_and_errors_are_counted_by_name_and_by_code_and_a_canceled_call_is_no_error() -> None:
    observer = MetricsObserver()
    watch(
        observer,
        (1, events.model_started("scripted:any", 1)),
        (2, events.model_failed("scripted:any", "ERR_RATE_LIMIT", "slow down", request_id=None, retry_at=9)),
        (3, events.tool_started(CALL)),
        (4, events.tool_error("charge", "c1", "too much", "execution")),
        (5, events.tool_started(CALL)),
        (6, events.tool_error("charge", "c1", "stopped", "canceled")),
        (7, events.tool_started(ToolCall(id="c2", name="shout"), tool_type="middleware")),
        (8, events.tool_output("shout", "c2", "A")),
        (8, events.runtime_warning("cache_lost", "it is gone")),
        (9, events.agent_error("ERR_API", "no")),
        (9, events.run_recovered(2, "died", "tools", 1, 3)),
        (9, events.tool_retried("charge", "c1", 2, "died")),
        (9, events.model_retried("scripted:any", 2, "error", ("ERR_RATE_LIMIT", "slow down"), 9)),
    )
    watch(observer, (1, events.agent_error("ERR_API", "no")), (2, events.agent_error("ERR_AUTH", "no")), thread=OTHER)
    figures = observer.snapshot()
    assert (figures.recoveries, figures.tools.retries, figures.models.retries) == (1, 1, 1)
    assert figures.models.failures_by_kind == {"ERR_RATE_LIMIT": 1}
    assert figures.tools.calls_by_name == {"charge": 2, "shout": 1}
    assert figures.tools.calls_by_type == {"function": 2, "middleware": 1}
    assert figures.tools.errors_by_name == {"charge": 1}
    assert figures.tools.errors_by_kind == {"execution": 1}
    assert figures.warnings_by_kind == {"cache_lost": 1}
    assert figures.events_by_type["tool.started"] == 3
    assert figures.errors.model_dump() == {"total": 3, "byKind": {"ERR_API": 2, "ERR_AUTH": 1}}


def test_every_decision_but_a_denial_grants_the_call() -> None:
    observer = MetricsObserver()
    decisions = {"a": "approve", "b": "edit", "c": "always", "d": "respond", "e": "deny"}
    watch(observer, (1, events.hitl_resume(True, decisions, (), "person")))
    assert observer.snapshot().approvals.model_dump() == {"pending": 0, "granted": 4, "denied": 1}


def test_names_that_models_make_up_take_no_more_than_their_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "NAMES_MOST", 2)
    observer = MetricsObserver()
    watch(observer, *((n, events.tool_started(ToolCall(id=str(n), name=f"t{n % 5}"))) for n in range(10)))
    assert observer.snapshot().tools.calls_by_name == {"t0": 2, "t1": 2, metrics.OTHERS: 6}


@pytest.mark.parametrize(
    ("lengths", "p50", "p95"),
    [
        ([7], 7, 7),
        ([10, 20], 15, 19.5),
        ([40, 10, 30, 20], 25, 38.5),
        (range(1, 102), 51, 96),
    ],
)
def test_percentiles_lie_on_the_line_between_two_neighbours(lengths: Sequence[int], p50: float, p95: float) -> None:
    observer = MetricsObserver()
    watch(observer, *turns(lengths))
    figures = observer.snapshot().turns
    assert figures.count == len(lengths)
    assert [figures.latency_ms_p50, figures.latency_ms_p95] == pytest.approx([p50, p95])


def test_turns_of_threads_that_work_side_by_side_are_not_mixed_up() -> None:
    observer = MetricsObserver()
    mine, theirs = seen(turns([100, 200])), seen(turns([1_000]), OTHER)
    for one in sorted([*mine, *theirs], key=lambda one: one.at):
        observer.observe(one)
    figures = observer.snapshot().turns
    assert (figures.count, figures.latency_ms_p50) == (3, 200)


def test_only_the_latest_turns_are_kept() -> None:
    observer = MetricsObserver(window=2)
    watch(observer, *turns([1_000, 10, 30]))
    figures = observer.snapshot().turns
    assert (figures.count, figures.latency_ms_p50) == (3, 20)


def test_a_turn_takes_as_long_as_it_is_at_work_and_ends_when_its_limits_are_used_up() -> None:
    observer = MetricsObserver()
    watch(
        observer,
        (0, events.run_tick(1)),
        (30, events.run_paused("hitl")),
        (90_000, events.run_resumed()),
        (90_010, events.run_paused("exhausted", "ERR_TOKEN_LIMIT")),
        (200_000, events.run_resumed()),
        (200_000, events.run_tick(2)),
        (200_005, events.run_canceled()),
    )
    figures = observer.snapshot().turns
    assert (figures.count, figures.latency_ms_p50) == (2, (40 + 5) / 2)


@pytest.mark.parametrize(("waited", "measured"), [(True, 25), (False, None)])
def test_a_turn_that_goes_on_in_another_process_is_measured_if_it_waited_and_else_only_counted(
    waited: bool, measured: float | None
) -> None:
    observer = MetricsObserver()
    past: list[Timed] = [(0, events.run_tick(1)), (20, completed(Usage(input=10, output=5), 0.5))]
    if waited:
        past += [(20, events.run_paused("hitl"))]
    observer.resumed(Resumed(THREAD, 1, 0, seen(past)))
    watch(observer, *([(9_000, events.run_resumed())] if waited else []), (9_005, RUN_ENDS))
    figures = observer.snapshot()
    assert (figures.turns.count, figures.turns.latency_ms_p50) == (1, measured)
    assert (figures.tokens, figures.cost.usd) == (Usage(), 0.0), "what is past was counted when it happened"


# With real threads.


@tool
async def charge(amount: int) -> str:
    if amount > 100:
        raise ToolError("too much")
    return f"charged {amount}"


def system_of(script: Script, observer: MetricsObserver, *tools: Tool, **agent: Any) -> AgentSystem:
    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)}).use(hitl).observe(observer)
    for each in (charge, *tools):
        system.add_tool(each)
    return system.add_agent(name="clerk", description="Does clerical work.", prompt="You are a clerk.", **agent)


async def test_a_run_in_figures(tmp_path: Path) -> None:
    observer = MetricsObserver()

    def script(request: ModelRequest) -> Line:
        match sum(message.role == "assistant" for message in request.messages):
            case 0:
                return ModelReply(
                    tool_calls=(call("charge", amount=5), call("charge", amount=500)),
                    stop="tool_use",
                    usage=Usage(input=100, output=10, cached_input=80),
                )
            case 1:
                return "done"
            case _:
                return ModelError("who are you", model_code="ERR_AUTH")

    async with LocalRuntime(system_of(script, observer), tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        for message in ("go", "again"):
            await thread.invoke(message)
            await thread.wait(PATIENCE)
        written = [event async for event in thread.events(follow=False)]

    figures = observer.snapshot()
    assert figures.events == len(written)
    assert figures.tokens == Usage(input=110, output=15, cached_input=80)
    assert (figures.cost.usd, figures.cost.unknown_calls) == (None, 2)
    assert (figures.cache.hits, figures.cache.misses) == (1, 1)
    assert figures.models.model_dump() == {"calls": 3, "failuresByKind": {"ERR_AUTH": 1}, "retries": 0}
    assert figures.tools.calls_by_name == {"charge": 2}
    assert (figures.tools.calls_by_type, figures.tools.errors_by_name) == ({"function": 2}, {"charge": 1})
    assert figures.errors.by_kind == {"ERR_AUTH": 1}
    assert figures.turns.count == 3
    assert figures.turns.latency_ms_p95 is not None


async def test_approvals_are_pending_where_the_thread_is_awake_until_somebody_decides(tmp_path: Path) -> None:
    calls = [call("charge", amount=n, call_id=f"c{n}") for n in range(4)]
    guarded: dict[str, Any] = {"tags": ["default", "hitl"], "config": {"hitl": {"tools": ["charge"]}}}
    before, after = MetricsObserver(), MetricsObserver()

    async with LocalRuntime(system_of([calls, "done"], before, **guarded), tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(PATIENCE)
        assert before.snapshot().approvals.model_dump() == {"pending": 4, "granted": 0, "denied": 0}
        await thread.decide({"c0": Approve()})
        assert before.snapshot().approvals.model_dump() == {"pending": 3, "granted": 1, "denied": 0}
    assert before.snapshot().approvals.model_dump() == {"pending": 0, "granted": 1, "denied": 0}

    async with LocalRuntime(system_of([calls, "done"], after, **guarded), tmp_path) as runtime:
        again = await runtime.thread(thread.id)
        assert after.snapshot().approvals.model_dump() == {"pending": 3, "granted": 0, "denied": 0}
        await again.decide({"c1": Edit(args={"amount": 9}), "c2": Deny(), "c3": Approve()})
        assert after.snapshot().approvals.model_dump() == {"pending": 0, "granted": 2, "denied": 1}
        assert (await again.wait(PATIENCE)).data == "done"
    assert after.snapshot().turns.latency_ms_p50 is not None, "all that time it waited, so nothing was missed"


async def test_a_canceled_run_leaves_nothing_pending(tmp_path: Path) -> None:
    observer = MetricsObserver()
    guarded: dict[str, Any] = {"tags": ["default", "hitl"], "config": {"hitl": {"tools": ["charge"]}}}
    async with LocalRuntime(system_of([call("charge", amount=1), "no"], observer, **guarded), tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(PATIENCE)
        assert observer.snapshot().approvals.pending == 1
        await thread.cancel()
        assert observer.snapshot().approvals.model_dump() == {"pending": 0, "granted": 0, "denied": 0}


async def test_what_two_processes_count_of_one_run_adds_up_to_the_run(tmp_path: Path) -> None:
    before, after, begun = MetricsObserver(), MetricsObserver(), asyncio.Event()

    @tool
    async def wait_once() -> str:
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return "waited"

    script: list[Line] = [call("charge", amount=1), call("wait_once"), "done"]
    async with LocalRuntime(system_of(script, before, wait_once), tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await begun.wait()
    async with LocalRuntime(system_of(script, after, wait_once), tmp_path) as runtime:
        again = await runtime.thread(thread.id)
        result = await again.wait(PATIENCE)
        written = [event async for event in again.events(follow=False)]

    both = [before.snapshot(), after.snapshot()]
    assert sum(figures.events for figures in both) == len(written)
    assert sum(figures.turns.count for figures in both) == result.meta.turns == 3
    assert [figures.tokens for figures in both] == [Usage(input=20, output=10), Usage(input=10, output=5)]
    assert [figures.tools.calls_by_name for figures in both] == [{"charge": 1, "wait_once": 1}, {}]
    assert both[1].turns.latency_ms_p95 == both[1].turns.latency_ms_p50, "the turn that was cut off is not measured"
