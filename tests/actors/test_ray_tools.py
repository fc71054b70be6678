"""Tools that run as Ray tasks: in a process of their own, and with the same promises as any other."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from actors import AgencyHandle, Cluster, ThreadHandle
from actors.address import Files
from agency import DefinitionError, LocalRuntime, tool
from agency.define.tools import RayOptions
from tests.support.scripted_system import calls, say, script, system
from tests.support.waiting import PATIENCE, eventually


def crunching(name: str, ledger: Path, what: str, **more: object) -> tuple[str, dict[str, Any]]:
    return name, {"ledger": str(ledger), "what": what, **more}


def noted(ledger: Path, what: str) -> list[tuple[str, int]]:
    """The keys and processes under which something was noted."""
    lines = (line.split() for line in ledger.read_text().splitlines())
    return [(key, int(pid)) for said, key, pid, *_ in lines if said == what]


def is_crunching(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::tool")
    return False


async def results(thread: ThreadHandle) -> list[str]:
    return [message.content for message in (await thread.state()).messages if message.role == "tool"]


def kept(cluster: Cluster, thread: ThreadHandle) -> list[str]:
    """What `crunch` has put into the thread's store."""
    path = Files(cluster.settings.data_dir).of(thread.address)
    with closing(sqlite3.connect(path)) as db:
        return [value for (value,) in db.execute("SELECT value FROM kv WHERE owner = 'crunch'")]


async def test_what_the_system_provides_is_opened_in_the_host_and_in_the_task(
    cluster: Cluster, agency: AgencyHandle
) -> None:
    thread = await agency.create_thread("clerk", script(calls(("grind", {}), ("grind_in_a_task", {})), say("done")))
    assert (await thread.wait(PATIENCE)).data == "done"
    in_host, in_task = await results(thread)
    hosts = [host.pid for host in (await cluster.status()).hosts]
    assert int(in_host.removeprefix("ground in ")) in hosts
    assert int(in_task.removeprefix("ground in ")) not in (*hosts, os.getpid())


async def test_a_tool_runs_in_a_process_of_its_own_and_writes_with_its_result(
    cluster: Cluster, agency: AgencyHandle, ledger: Path
) -> None:
    thread = await agency.create_thread("clerk", script(calls(crunching("crunch", ledger, "x")), say("done")))
    run = await thread.wait(PATIENCE)
    assert (run.status, run.data) == ("completed", "done")
    ((key, pid),) = noted(ledger, "begin:x")
    assert await results(thread) == [f"crunched x in {pid}"]
    assert key.startswith(f"{thread.id}.")
    hosts = [host.pid for host in (await cluster.status()).hosts]
    assert pid not in (*hosts, os.getpid())
    assert kept(cluster, thread) == ['"x"']


async def test_what_goes_wrong_in_a_tool_is_the_result_of_its_call_and_nothing_is_written(
    cluster: Cluster, agency: AgencyHandle
) -> None:
    wrong = [("crunch_wrongly", {"how": how}) for how in ("told", "raised", "read")]
    misused = ("crunch", {"what": 7})
    thread = await agency.create_thread("clerk", script(calls(*wrong, misused), say("oh well")))
    run = await thread.wait(PATIENCE)
    assert (run.status, run.data) == ("completed", "oh well")
    told, raised, read, invalid = await results(thread)
    assert told == "Error: permission_denied: the mill is closed"
    assert raised == "Error: execution: ValueError: no grain"
    assert read == "Error: execution: a tool on the cluster can write to its thread's store, but not read it"
    assert invalid.startswith("Error: invalid_request")
    assert kept(cluster, thread) == []


@pytest.mark.kills
async def test_when_a_worker_dies_an_idempotent_call_runs_again_and_another_is_in_doubt(
    agency: AgencyHandle, ledger: Path
) -> None:
    lines = calls(
        crunching("crunch_and_die", ledger, "twice", times=1),
        crunching("crunch_once", ledger, "once"),
        crunching("crunch_and_die", ledger, "always", times=99),
    )
    thread = await agency.create_thread("clerk", script(lines, say("done")))
    run = await thread.wait(PATIENCE)
    assert (run.status, run.data) == ("completed", "done")
    twice, once, always = await results(thread)
    assert twice == "survived twice"
    assert "It may or may not have taken effect" in once
    assert always.startswith("Error: unavailable: the worker of crunch_and_die died 3 times")
    tries = noted(ledger, "try:twice")
    assert len(tries) == 2
    assert len({key for key, _ in tries}) == 1
    assert len({pid for _, pid in tries}) == 2
    assert len(noted(ledger, "once:once")) == 1
    assert len(noted(ledger, "try:always")) == 3


async def test_a_tool_that_takes_too_long_is_stopped(agency: AgencyHandle, ledger: Path) -> None:
    warm = crunching("crunch", ledger, "warm")  # the time counts from the order, and a worker takes a while to start
    late = crunching("crunch_too_long", ledger, "late")
    thread = await agency.create_thread("clerk", script(calls(warm, late), say("too long")))
    assert (await thread.wait(PATIENCE)).data == "too long"
    assert (await results(thread))[1] == "Error: timeout: crunch_too_long did not end within 1 s"
    ((_, pid),) = noted(ledger, "begin:late")
    await eventually(lambda: not is_crunching(pid))
    assert noted(ledger, "end:late") == []


async def test_canceling_the_run_stops_the_tool(cluster: Cluster, agency: AgencyHandle, ledger: Path) -> None:
    long = crunching("crunch", ledger, "x", seconds=60)
    thread = await agency.create_thread("clerk", script(calls(long), say("never")))
    await eventually(lambda: noted(ledger, "begin:x"))
    ((_, pid),) = noted(ledger, "begin:x")
    assert is_crunching(pid)
    await thread.cancel()
    assert (await thread.wait(PATIENCE)).status == "canceled"
    await eventually(lambda: not is_crunching(pid))
    assert noted(ledger, "end:x") == []
    assert kept(cluster, thread) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cpus": 1}, "ray.cpus: Extra inputs are not permitted"),
        ({"num_cpus": -1}, "ray.num_cpus: Input should be greater than or equal to 0"),
        ({"max_retries": 3}, "ray.max_retries: Extra inputs are not permitted"),
        ({"resources": {"mill": 0}}, "ray.resources.mill: Input should be greater than 0"),
    ],
)
def test_wrong_options_are_refused_where_the_tool_is_defined(options: dict[str, Any], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):

        @tool(ray=cast(RayOptions, options))
        def mill() -> str:
            return "flour"


async def test_without_a_cluster_such_a_tool_simply_runs(tmp_path: Path, ledger: Path) -> None:
    async with LocalRuntime(system, tmp_path / "threads") as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke(script(calls(crunching("crunch", ledger, "x")), say("done")))
        assert (await thread.wait(PATIENCE)).data == "done"
    assert [pid for _, pid in noted(ledger, "end:x")] == [os.getpid()]
