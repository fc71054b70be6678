"""Agencies in processes of their own: where each lives, what shows it, and what happens when such a process dies."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
import ray
from pydantic import JsonValue

from actors import ThreadHandle
from actors.address import Address
from actors.agency_hosts import home_of, names_of
from actors.caller import Caller, Location
from agency.errors import NotFound
from tests.support.clusters import Install, all_threads, directory_of, home_process
from tests.support.processes import kill
from tests.support.scripted_system import calls, noted, noting, say, script
from tests.support.waiting import PATIENCE, eventually

LONG = 60.0
SECONDLY: dict[str, JsonValue] = {
    "name": "hourly",
    "agentType": "clerk",
    "message": script(say("done")),
    "kind": "interval",
    "everyMs": 1_000,
    "overlap": "allow",
}


def test_an_agency_has_one_home_and_all_of_them_are_spread() -> None:
    names = names_of(4)
    homes = [home_of(f"agc_{number}", names) for number in range(400)]
    assert names == ("AgencyHost-1", "AgencyHost-2", "AgencyHost-3", "AgencyHost-4")
    assert all(homes.count(name) > 50 for name in names)
    assert homes == [home_of(f"agc_{number}", names) for number in range(400)]


async def test_agencies_are_spread_over_processes_and_everything_says_which(install: Install) -> None:
    cluster = await install(agency_hosts=3)
    made = [(await cluster.create_agency(f"agency {number}")).id for number in range(12)]
    status = await cluster.status()
    assert [each.name for each in status.agency_hosts] == [*names_of(3)]
    for each in status.agency_hosts:
        assert set(each.agencies) == {agency for agency in made if home_of(agency, names_of(3)) == each.name}
        assert (each.state, each.problem, len(each.node)) == ("ready", "", 56)
        assert each.rss_bytes is not None and each.rss_bytes > 10_000_000
        title = Path(f"/proc/{each.pid}/cmdline").read_bytes().partition(b"\0")[0]
        assert title.decode() == f"ray::{each.name} of agencies"
    assert len({each.pid for each in status.agency_hosts} | {directory_of(cluster)}) == 4
    assert set(status.agencies) == set(made)
    named = {each["name"] for each in ray.util.list_named_actors(all_namespaces=True)}
    assert {"Directory", "Host-1", *names_of(3)} <= named


async def test_whoever_has_a_thread_made_knows_where_it_is(install: Install) -> None:
    cluster = await install()
    thread = await (await cluster.create_agency("bakery")).create_thread("clerk")
    known = await cluster.caller.locate(thread.address)
    assert await cluster.where([thread.address]) == {thread.address: known.host}
    kill(directory_of(cluster))
    assert await cluster.caller.locate(thread.address) is known, "without asking anybody"


@pytest.mark.kills
async def test_an_agency_whose_process_dies_goes_on_in_the_next_one(install: Install, ledger: Path) -> None:
    cluster = await install()
    agency = await cluster.create_agency("bakery")
    thread = await agency.create_thread("clerk", script(calls(noting(ledger, "x", 2.0)), say("done")))
    await eventually(lambda: "begin:x" in noted(ledger))
    before = await home_process(cluster, agency.id)
    kill(before)
    assert [each.id for each in (await agency.threads()).threads] == [thread.id]
    assert (await thread.wait(PATIENCE)).data == "done", "its threads do not notice"
    assert await home_process(cluster, agency.id) != before

    async def completed() -> bool:
        (summary,) = (await agency.threads()).threads
        return summary.status == "completed"

    await eventually(completed)


@pytest.mark.kills
async def test_threads_that_are_made_while_processes_die_are_made_once(install: Install) -> None:
    cluster = await install(actors_per_node=2)
    agency = await cluster.create_agency("bakery")

    async def make(number: int) -> ThreadHandle:
        return await agency.create_thread("clerk", script(say(f"done {number}")), thread_id=f"made-{number}")

    making = [asyncio.create_task(make(number)) for number in range(40)]
    await asyncio.sleep(0.05)
    kill(await home_process(cluster, agency.id))
    await asyncio.sleep(0.3)
    kill(directory_of(cluster))
    await asyncio.sleep(0.3)
    (host, *_) = (await cluster.status()).hosts
    kill(*([] if host.pid is None else [host.pid]))
    made = await asyncio.gather(*making)
    runs = await asyncio.gather(*(thread.wait(LONG) for thread in made))
    assert [run.data for run in runs] == [f"done {number}" for number in range(40)]
    assert sorted(await all_threads(agency)) == sorted({thread.id for thread in made})
    assert len(made) == 40


@pytest.mark.kills
async def test_what_an_agency_had_begun_is_finished_when_its_process_starts_again(install: Install) -> None:
    cluster = await install(hibernate_after=0.3)
    agency = await cluster.create_agency("bakery")
    pid = await home_process(cluster, agency.id)
    schedule = await agency.create_schedule(SECONDLY)
    kill(pid)

    async def runs() -> int:
        return len((await agency.threads()).threads)

    assert await eventually(runs, LONG), "its schedules are in its file alone"
    await agency.delete_schedule(schedule.id)


@pytest.mark.kills
@pytest.mark.timeout(180)
async def test_an_agency_host_that_hangs_is_told_of_and_replaced(install: Install) -> None:
    cluster = await install(silent_after=1.0, replace_after=10.0)
    agency = await cluster.create_agency("bakery")
    await agency.info()
    pid = await home_process(cluster, agency.id)
    os.kill(pid, signal.SIGSTOP)
    try:

        async def silent() -> bool:
            problems = [each.problem for each in (await cluster.status()).agency_hosts if each.state == "silent"]
            return any(problem.startswith("it has not answered for") for problem in problems)

        await eventually(silent, LONG)
        readiness = await cluster.ready()
        assert not readiness.ready and "AgencyHost" in readiness.reason
        assert (await agency.info()).name == "bakery"
        assert await home_process(cluster, agency.id) != pid
    finally:
        kill(pid)


async def test_a_place_of_which_nothing_came_is_no_thread_and_is_used_when_there_is_one(install: Install) -> None:
    cluster = await install()
    agency = await cluster.create_agency("bakery")
    caller: Caller = cluster.caller
    await agency.create_thread("clerk")  # so that a host is ready
    address = Address(agency.id, "thr_nothing")
    ((place),) = await caller.ask_directory("reserve", [address])
    assert isinstance(place, Location)
    ((again),) = await caller.ask_directory("reserve", [address])
    assert (again.host, again.activation > place.activation) == (place.host, True)
    with pytest.raises(NotFound):  # nothing came of the order
        await cluster.thread(agency.id, "thr_nothing").run()
    thread = await agency.create_thread("clerk", script(say("done")), thread_id="thr_nothing")
    assert (await thread.wait(PATIENCE)).data == "done"
    assert (await cluster.caller.locate(address)).activation > again.activation
