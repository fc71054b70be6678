"""Figures of an installation: what has happened is counted once, whoever dies and whatever is said twice."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from actors import Cluster, Metrics
from actors.totals import UNITS, EventCounts, InstallationTotals
from agency import events
from agency.messages import ToolCall, Usage
from tests.support.clusters import Install, asleep
from tests.support.scripted_system import calls, noting, say, script, task
from tests.support.waiting import PATIENCE, eventually

CALL = ToolCall(id="c1", name="charge", args={})
USED = Usage(input=10, output=5, cached_input=4, cache_write=1)


def test_events_are_counted_by_what_they_tell() -> None:
    tally = EventCounts()
    tally.count(
        [
            events.thread_created("clerk"),
            events.run_started(),
            events.run_tick(1),
            events.model_started("demo:x", 1),
            events.model_failed("demo:x", "ERR_API", "no", request_id=None),
            events.model_started("demo:x", 1),
            events.model_completed("demo:x", USED, 0.1, USED, 0.1),
            events.model_started("demo:y", 1),
            events.model_completed("demo:y", USED, None, USED + USED, None),
            events.model_started("demo:x", 1),
            events.model_completed("demo:x", USED, 0.2, USED + USED, None),
            events.hitl_interrupt([(CALL, ()), (CALL, ())], "approval"),
            events.hitl_resume(True, {"c1": "approve"}, [], "person"),
            events.tool_started(CALL),
            events.tool_error("charge", "c1", "no", "execution"),
            events.subagent_spawned("t2", "worker", "c2"),
            events.agent_error("ERR_X", "no"),
        ]
    )
    assert tally.totals() == {
        "runs_started": 1,
        "turns": 1,
        "model_calls": 4,
        "model_failures": 1,
        "tokens_in": 30,
        "tokens_out": 15,
        "tokens_cached": 12,
        "tokens_cache_written": 3,
        "cost_units": 3 * UNITS // 10,
        "model_calls_unpriced": 1,
        "approvals_asked": 2,
        "approvals_answered": 1,
        "tool_calls": 1,
        "tool_errors": 1,
        "subagents_spawned": 1,
        "runs_failed": 1,
    }
    assert tally.totals().keys() - Metrics.model_fields.keys() == {"cost_units"}


def test_what_is_told_twice_counts_once_and_what_was_before_does_not_count() -> None:
    sums = InstallationTotals()
    sums.begin("Host-1", {"turns": 5})
    sums.take("Host-1", {"turns": 7, "tool_calls": 1})
    sums.take("Host-1", {"turns": 7, "tool_calls": 1})
    sums.take("Host-2", {"turns": 3})
    sums.forget("Host-2")
    sums.add("host_deaths")
    assert sums.all() == {"turns": 5, "tool_calls": 1, "host_deaths": 1}


async def figures(cluster: Cluster, **expected: int) -> bool:
    found = (await cluster.metrics()).model_dump(by_alias=False)
    return {name: found[name] for name in expected} == expected


@pytest.mark.kills
async def test_what_happens_is_counted_and_what_there_is_now_is_known(install: Install, ledger: Path) -> None:
    cluster = await install(hibernate_after=1.0, actors_per_node=2)
    agency = await cluster.create_agency("bakery")
    charge = ("charge", {"ledger": str(ledger), "what": "7"})
    asking = await agency.create_thread("careful", script(calls(charge, charge), say("charged")))
    parent = await agency.create_thread("clerk", script(calls(noting(ledger, "x"), task(say("part"))), say("whole")))
    failing = await agency.create_thread("clerk", script(calls(("nothing", {}))))
    stopped = await agency.create_thread("clerk", script(say("never", delay=60)))
    await stopped.cancel()
    for thread in (asking, parent, failing, stopped):
        await thread.wait(PATIENCE)
    ended = {"runs_started": 5, "runs_completed": 2, "runs_failed": 1, "runs_canceled": 1}
    counted = {"approvals_asked": 2, "approvals_answered": 0, "approvals_waiting": 1, "subagents_spawned": 1}
    await eventually(lambda: figures(cluster, **ended, **counted))
    await asking.approve()
    await asking.wait(PATIENCE)
    await eventually(lambda: figures(cluster, approvals_answered=2, approvals_waiting=0, runs_completed=3))
    await eventually(lambda: asleep(cluster, asking, parent, failing, stopped))
    await eventually(lambda: figures(cluster, awake=0, hibernated=5))
    found = await cluster.metrics()
    assert found.activations == found.hibernations >= 5
    assert (found.model_calls >= 7, found.tokens_in >= 60, found.tokens_out >= 30) == (True, True, True)
    assert (found.tool_calls >= 4, found.turns >= 7, found.host_deaths, found.alarms) == (True, True, 0, 0)
    assert (found.cost_usd, found.model_calls_unpriced >= 6) == (0.0, True)
    assert (found.hosts["ready"] >= 1, found.uptime_seconds > 0) == (True, True)

    (host, *_) = (host for host in (await cluster.status()).hosts if host.pid is not None)
    assert host.pid is not None
    os.kill(host.pid, signal.SIGKILL)
    await eventually(lambda: figures(cluster, host_deaths=1, runs_completed=3))
