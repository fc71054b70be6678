"""Hosts that do not answer: they get nothing new, are told of, and are replaced; what they come back with is refused.

Processes are stopped for real, with SIGSTOP, and a tool blocks its event loop for real.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from actors import Cluster, HostStatus, ThreadHandle
from agency import EventType
from dashboard.gateway.app import create_app
from dashboard.gateway.settings import GatewaySettings
from tests.support.clusters import Install, directory_of, evict
from tests.support.processes import lives
from tests.support.scripted_system import calls, charging, holding, let_go, noted, say, script
from tests.support.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.kills, pytest.mark.timeout(180)]
LONG = 60.0
"""Of what happens by itself soon, on a machine that may be slow."""


@contextmanager
def stopped(*pids: int | None) -> Iterator[None]:
    found = [pid for pid in pids if pid is not None]
    try:
        for pid in found:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


async def hosts(cluster: Cluster, *states: str, least: int = 1) -> list[HostStatus]:
    """The hosts in one of these states, if there are so many."""
    found = [host for host in (await cluster.status()).hosts if host.state in states]
    return found if len(found) >= least else []


def client_of(cluster: Cluster) -> httpx.AsyncClient:
    """A client of a gateway in this process."""
    app = create_app(GatewaySettings())
    app.state.cluster = cluster
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")


async def home(cluster: Cluster, thread: ThreadHandle) -> str:
    return next(iter((await cluster.where([thread.address])).values()), "")


async def test_what_waits_for_a_person_is_listed_though_its_host_is_stopped(install: Install, tmp_path: Path) -> None:
    cluster = await install(actors_per_node=3, warm_hosts=2, silent_after=1.5, replace_after=600)
    agency = await cluster.create_agency("bakery")
    asking = script(calls(charging(tmp_path / "ledger", "loaf")), say("done"))
    threads = [await agency.create_thread("careful", asking) for _ in range(2)]
    for thread in threads:
        assert (await thread.wait(PATIENCE)).meta.pause_reason == "hitl"
    first = await home(cluster, threads[0])
    http = client_of(cluster)
    with stopped(*(host.pid for host in await hosts(cluster, "ready", "busy") if host.name == first)):
        inbox = await http.get(f"/agency/{agency.id}/approvals", timeout=LONG)
        assert inbox.status_code == 200, inbox.text
        listed = {each["threadId"]: [call["name"] for call in each["calls"]] for each in inbox.json()["approvals"]}
        assert listed == {thread.id: ["charge"] for thread in threads}


async def test_a_stopped_host_gets_nothing_new_and_answers_again_when_it_goes_on(install: Install) -> None:
    cluster = await install(actors_per_node=3, warm_hosts=2, silent_after=1.5, replace_after=600)
    agency = await cluster.create_agency("bakery")
    ready = await eventually(lambda: hosts(cluster, "ready", least=2), LONG)
    http = client_of(cluster)
    assert (await http.get("/healthz")).status_code == 200
    with stopped(*(host.pid for host in ready)):

        async def unready() -> str:
            return (await cluster.ready()).reason

        assert await eventually(unready, LONG, every=0.005) == "no host answers"
        assert (await http.get("/healthz")).json()["detail"] == "no host answers"
        began = time.monotonic()
        threads = await asyncio.gather(*(agency.create_thread("clerk", script(say("hello"))) for _ in range(4)))
        assert [(await thread.wait(PATIENCE)).data for thread in threads] == ["hello"] * 4
        assert time.monotonic() - began < LONG
        silent = await eventually(lambda: hosts(cluster, "silent", least=2), LONG)
        assert {host.name for host in silent} == {host.name for host in ready}
        assert all("has not answered for" in host.problem for host in silent)
        assert not {await home(cluster, thread) for thread in threads} & {host.name for host in silent}
        figures = await cluster.metrics()
        assert (figures.hosts["silent"], figures.hosts["ready"] >= 1, figures.host_deaths) == (2, True, 0)
        assert 'agency_hosts{state="silent"} 2.0' in (await http.get("/metrics")).text
        assert (await cluster.ready()).ready and (await http.get("/healthz")).status_code == 200
        assert sum(host.state != "silent" for host in (await cluster.status()).hosts) <= 2, "three, and one in place"
    await eventually(lambda: hosts(cluster, "ready", least=3), LONG)
    assert (await cluster.metrics()).host_deaths == 0


async def test_a_host_that_stays_silent_is_replaced_and_comes_back_only_to_end(install: Install, ledger: Path) -> None:
    cluster = await install(actors_per_node=2, warm_hosts=1, silent_after=1.0, replace_after=4.0)
    agency = await cluster.create_agency("bakery")
    thread = await agency.create_thread("clerk", script(calls(holding(ledger, "x")), say("done")))
    await eventually(lambda: "begin:x" in noted(ledger))
    name = await home(cluster, thread)
    (host,) = (host for host in (await cluster.status()).hosts if host.name == name)
    assert host.pid is not None
    with stopped(host.pid):
        waiting = asyncio.create_task(thread.state())  # a call that is under way to the host
        await eventually(lambda: noted(ledger).count("begin:x") == 2, LONG)  # the run was taken up elsewhere
        assert await home(cluster, thread) not in ("", name)
        assert (await asyncio.wait_for(waiting, LONG)).run.status == "running"
    let_go(ledger, "x")
    assert (await thread.wait(PATIENCE)).data == "done"
    await eventually(lambda: not lives(host.pid or 0), LONG)
    figures = await cluster.metrics()
    assert (figures.host_deaths, figures.hosts_replaced) == (1, 1)
    events = await thread.stored_events(0, 1_000)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert sum(event.type == EventType.TOOL_OUTPUT for event in events) == 1
    assert sum(event.type == EventType.RUN_RECOVERED for event in events) == 1
    assert noted(ledger).count("end:x") == 1


async def test_a_tool_that_blocks_its_loop_is_named_and_new_threads_do_not_wait_for_it(
    install: Install, ledger: Path
) -> None:
    cluster = await install(actors_per_node=1, warm_hosts=1, blocked_after=1.0, silent_after=2.0, replace_after=600)
    agency = await cluster.create_agency("bakery")
    await eventually(lambda: hosts(cluster, "ready"), LONG)
    beside = await agency.create_thread("clerk", script(say("beside", delay=2.0)))
    held = ("block", {"ledger": str(ledger), "what": "x", "seconds": 600.0})
    blocking = await agency.create_thread("clerk", script(calls(held, delay=0.5), say("done")))
    assert await home(cluster, beside) == await home(cluster, blocking)
    await eventually(lambda: "begin:x" in noted(ledger))
    threads = await asyncio.gather(*(agency.create_thread("clerk", script(say("hello"))) for _ in range(3)))
    assert [(await thread.wait(PATIENCE)).data for thread in threads] == ["hello"] * 3
    (silent,) = await eventually(lambda: hosts(cluster, "silent"))
    assert f"tool block of thread {blocking.id} holds up the event loop" in silent.problem
    assert "end:x" not in noted(ledger), "it holds up its loop still"
    let_go(ledger, "x")

    assert ((await blocking.wait(LONG)).data, (await beside.wait(LONG)).data) == ("done", "beside")
    (warning,) = (await blocking.run()).meta.warnings
    assert warning.kind == "tool_blocks_loop"
    assert warning.message.startswith("tool block held up the event loop of its process, and every thread in it, for ")
    events = await blocking.stored_events(0, 1_000)
    assert [event.data["kind"] for event in events if event.type == EventType.RUNTIME_WARNING] == ["tool_blocks_loop"]
    assert (await beside.run()).meta.warnings == ()

    async def stacks() -> list[str]:
        lines = (await cluster.server_log()).lines
        return [str(line.exception) for line in lines if "holds up" in line.event and line.exception is not None]

    assert ["time.sleep(0.2)" in stack for stack in await eventually(stacks)] == [True]
    for thread in threads:  # orders that came late, when the loop turned again, were not carried out
        types = [event.type for event in await thread.stored_events(0, 1_000)]
        assert (types.count(EventType.RUN_STARTED), types.count(EventType.RUN_RECOVERED)) == (1, 0)
        assert (await thread.invoke(script(say("again")))).run_id
        assert (await thread.wait(PATIENCE)).data == "again"
    assert (await cluster.metrics()).host_deaths == 0
    await eventually(lambda: hosts(cluster, "ready", least=2), LONG)


async def test_a_thread_that_blocks_its_loop_for_good_is_parked_and_those_beside_it_are_not_suspected(
    install: Install, ledger: Path
) -> None:
    more = {"blocked_after": 0.5, "silent_after": 1.0, "replace_after": 2.5, "poison_after": 2}
    cluster = await install(actors_per_node=1, warm_hosts=1, **more)
    agency = await cluster.create_agency("ward")
    await eventually(lambda: hosts(cluster, "ready"), LONG)
    beside = await agency.create_thread("clerk", script(calls(holding(ledger, "y")), say("beside")))
    held = ("block", {"ledger": str(ledger), "what": "x", "seconds": 600.0})
    blocking = await agency.create_thread("clerk", script(calls(held), say("never")))
    run = await blocking.wait(LONG)
    (error,) = run.errors
    assert error.code == "ERR_POISON" and "tool block of thread" in error.message
    assert noted(ledger).count("begin:x") == 2
    warned = [warning for warning in run.meta.warnings if warning.kind == "tool_blocks_loop"]
    assert len(warned) == 1 and "the run taken up in another one" in warned[0].message
    let_go(ledger, "y")
    assert (await beside.wait(LONG)).data == "beside"


async def test_an_installation_that_was_stopped_as_a_whole_replaces_no_host(install: Install) -> None:
    cluster = await install(actors_per_node=2, warm_hosts=1, silent_after=1.0, replace_after=2.0)
    (host,) = await eventually(lambda: hosts(cluster, "ready"), LONG)
    with stopped(directory_of(cluster), host.pid):
        until = time.monotonic() + 4.0  # twice the time after which a host is replaced
        await eventually(lambda: time.monotonic() > until)
    await eventually(lambda: hosts(cluster, "ready"), LONG)
    assert (await cluster.metrics()).hosts_replaced == 0
    assert [each.name for each in await hosts(cluster, "ready")] == [host.name]


async def test_an_order_that_is_given_to_a_host_as_it_falls_silent_is_carried_out_elsewhere_and_only_there(
    install: Install,
) -> None:
    cluster = await install(actors_per_node=2, warm_hosts=1, silent_after=1.5, replace_after=600)
    agency = await cluster.create_agency("bakery")
    (host,) = await eventually(lambda: hosts(cluster, "ready"), LONG)
    with stopped(host.pid):
        thread = await agency.create_thread("clerk", script(say("hello", delay=0.5)))
        assert (await thread.wait(PATIENCE)).data == "hello"
        assert await home(cluster, thread) not in ("", host.name)
    await eventually(lambda: hosts(cluster, "ready", least=2), LONG)
    await thread.invoke(script(say("again")))
    assert (await thread.wait(PATIENCE)).data == "again"
    types = [event.type for event in await thread.stored_events(0, 1_000)]
    assert (types.count(EventType.RUN_STARTED), types.count(EventType.RUN_RECOVERED)) == (2, 0)


async def test_threads_open_though_this_machines_clock_was_put_back(install: Install) -> None:
    cluster = await install()
    agency = await cluster.create_agency("bakery")
    thread = await agency.create_thread("clerk", script(say("hello")))
    await thread.wait(PATIENCE)
    await evict(cluster, thread)
    (path,) = cluster.settings.data_dir.rglob(f"{thread.id}.db")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE meta SET value = value + 3600000000000 WHERE key = 'order'")  # an hour
    await thread.invoke(script(say("again")))
    assert (await thread.wait(PATIENCE)).data == "again"


async def test_calls_that_hang_in_worker_threads_keep_no_other_from_them(install: Install, ledger: Path) -> None:
    cluster = await install(actors_per_node=1)
    agency = await cluster.create_agency("bakery")
    many = calls(*(("linger", {"ledger": str(ledger), "what": "x"}) for _ in range(60)))
    hanging = await agency.create_thread("clerk", script(many, say("done")))
    await eventually(lambda: noted(ledger).count("begin:x") >= 6)
    fork = await hanging.fork(script(say("fork")), after_seq=1)  # whose file is made in a worker thread
    assert (await fork.wait(PATIENCE)).data == "fork"
    let_go(ledger, "x")
    assert (await hanging.wait(LONG)).data == "done"
