"""Usage and budgets of an agency, whoever spends and whatever dies. A call of a model takes 15 tokens here."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from actors import AgencyHandle, Cluster, ThreadHandle
from actors.address import Address, Files
from actors.agency.store import AgencyStore
from agency import RunEnvelope, WrongState
from agency.api.tenancy import Budget
from agency.store.sqlite import LOCAL
from agency.turn.state import RunCeiling
from tests.support.clusters import Install, asleep, directory_of, home_process
from tests.support.scripted_system import calls, holding, let_go, noting, say, script, task
from tests.support.waiting import PATIENCE, eventually

CALL = 15


def steps(ledger: Path, many: int, *, seconds: float = 0.0) -> str:
    """A run of so many model calls."""
    return script(*(calls(noting(ledger, f"step{i}", seconds)) for i in range(many - 1)), say("done"))


async def tokens(agency: AgencyHandle) -> int:
    return (await agency.usage()).tokens_used.total


async def uses(agency: AgencyHandle, many: int) -> bool:
    return await tokens(agency) == many


async def paused(thread: ThreadHandle) -> RunEnvelope:
    run = await thread.wait(PATIENCE)
    assert (run.status, run.meta.pause_reason) == ("paused", "exhausted"), run
    return run


async def hosts(cluster: Cluster) -> list[int]:
    return [host.pid for host in (await cluster.status()).hosts if host.pid is not None]


# Usage.


async def test_what_threads_use_is_summed_up_with_that_of_children_and_of_deleted_ones(agency: AgencyHandle) -> None:
    empty = await agency.usage()
    assert (empty.tokens_used.total, empty.cost_usd, empty.threads, empty.exhausted) == (0, 0.0, 0, None)
    family = script(calls(task(say("a part"), to="runner"), task(say("another"), to="runner")), say("whole"))
    parent = await agency.create_thread("broker", family)
    alone = await agency.create_thread("broker", script(say("done")))
    for thread in (parent, alone):
        assert (await thread.wait(PATIENCE)).status == "completed"
    await eventually(lambda: uses(agency, 5 * CALL))
    found = await agency.usage()
    assert (found.turns, found.threads, found.cost_usd) == (5, 4, 0.075)
    assert (found.children.turns, found.children.tokens_used.total, found.children.cost_usd) == (2, 30, 0.03)
    assert found.active_ms >= found.children.active_ms
    listed = await parent.info()
    assert (listed.tokens_used.total, listed.cost_usd) == (4 * CALL, 0.06)
    assert (listed.children.tokens_used.total, listed.children.cost_usd) == (2 * CALL, 0.03)

    await alone.invoke(script(say("again")))
    await alone.wait(PATIENCE)
    assert (await alone.info()).tokens_used.total == 2 * CALL
    for thread in (alone, parent):
        await agency.delete_thread(thread.id)
    found = await agency.usage()
    assert (found.turns, found.threads, found.tokens_used.total, found.cost_usd) == (6, 0, 6 * CALL, 0.09)


async def test_a_thread_that_is_deleted_while_it_works_has_used_what_it_had_used(
    agency: AgencyHandle, ledger: Path
) -> None:
    thread = await agency.create_thread("broker", script(calls(noting(ledger, "x", 60)), say("never")))
    await eventually(lambda: "begin:x" in ledger.read_text())
    await agency.delete_thread(thread.id)
    assert (await agency.usage()).cost_usd == 0.015


async def test_a_cost_that_nobody_knows_is_not_zero(agency: AgencyHandle) -> None:
    thread = await agency.create_thread("clerk", script(say("done")))
    await thread.wait(PATIENCE)
    assert (await thread.info()).cost_usd is None
    assert (await agency.usage()).cost_usd is None


@pytest.mark.kills
@pytest.mark.parametrize("dies", ["hosts", "directory"])
async def test_the_sum_is_right_after_a_death_before_it_was_told(install: Install, ledger: Path, dies: str) -> None:
    """The directory hangs while threads work; then it dies, or whoever could tell it."""
    cluster = await install()
    agency = await cluster.create_agency("bakery")
    threads = [await agency.create_thread("broker", script(say("first"))) for _ in range(3)]
    for thread in threads:
        await thread.wait(PATIENCE)
    await eventually(lambda: uses(agency, 3 * CALL))
    living, directory = await hosts(cluster), directory_of(cluster)
    os.kill(directory, signal.SIGSTOP)
    try:
        for thread in threads:
            await thread.invoke(steps(ledger, 2))
            await thread.wait(PATIENCE)
    finally:
        for pid in living if dies == "hosts" else []:
            os.kill(pid, signal.SIGKILL)
        os.kill(directory, signal.SIGKILL if dies == "directory" else signal.SIGCONT)
    await eventually(lambda: uses(agency, 9 * CALL))
    assert (await agency.usage()).cost_usd == 0.135


# Budgets.


async def one_completed(*threads: ThreadHandle) -> bool:
    runs = [await thread.run() for thread in threads]
    return any(run.status == "completed" for run in runs) and all(run.status != "running" for run in runs)


async def settled(thread: ThreadHandle) -> RunEnvelope:
    """The run when it has ended."""

    async def ended() -> bool:
        return (await thread.run()).status in ("completed", "error", "canceled")

    await eventually(ended)
    return await thread.run()


async def test_without_a_budget_nothing_is_held_back(agency: AgencyHandle) -> None:
    assert (await agency.info()).budget == Budget()
    thread = await agency.create_thread("clerk", script(say("done")))
    assert (await thread.wait(PATIENCE)).status == "completed"


@pytest.mark.parametrize(
    ("budget", "code", "more"),
    [
        (Budget(tokens=2 * CALL), "ERR_AGENCY_TOKENS", Budget(tokens=9 * CALL)),
        (Budget(cost_usd=0.03), "ERR_AGENCY_COST", Budget(cost_usd=0.031, tokens=None)),
        (Budget(turns=2), "ERR_AGENCY_TURNS", Budget()),
    ],
)
async def test_a_budget_that_is_used_up_pauses_before_the_next_call_and_goes_on_when_it_is_raised(
    agency: AgencyHandle, ledger: Path, budget: Budget, code: str, more: Budget
) -> None:
    assert (await agency.set_budget(budget)).budget == budget
    assert (await agency.info()).budget == budget
    thread = await agency.create_thread("broker", steps(ledger, 3))
    run = await paused(thread)
    assert [error.code for error in run.errors] == [code]
    assert run.meta.tokens_used.total == 2 * CALL
    found = await agency.usage()
    assert (found.exhausted, found.tokens_used.total) == (code, 2 * CALL)
    with pytest.raises(WrongState, match="budget"):
        await thread.lift_limits(turns=50, tokens=10_000)
    other = await agency.create_thread("broker", script(say("me too")))
    assert [error.code for error in (await paused(other)).errors] == [code]
    assert await tokens(agency) == 2 * CALL, "nobody has spent anything since"

    assert (await agency.set_budget(more)).exhausted is None
    await eventually(lambda: one_completed(thread, other))


async def test_a_budget_of_money_stops_an_agency_whose_cost_nobody_knows(agency: AgencyHandle) -> None:
    thread = await agency.create_thread("clerk", script(say("once")))
    await thread.wait(PATIENCE)
    await agency.set_budget(Budget(cost_usd=1_000))
    await thread.invoke(script(say("twice")))
    assert [error.code for error in (await paused(thread)).errors] == ["ERR_AGENCY_COST_UNKNOWN"]
    await agency.set_budget(Budget(tokens=1_000))
    assert (await settled(thread)).data == "twice"


async def test_a_budget_counts_at_once_for_threads_that_are_awake_and_a_lower_one_too(
    agency: AgencyHandle, ledger: Path
) -> None:
    thread = await agency.create_thread("broker", steps(ledger, 3, seconds=1.0))
    await eventually(lambda: "begin:step0" in ledger.read_text())
    await agency.set_budget(Budget(tokens=0))
    run = await paused(thread)
    assert run.meta.tokens_used.total == CALL
    await agency.set_budget(Budget(tokens=1))
    await thread.cancel()
    assert (await thread.wait(PATIENCE)).status == "canceled"
    await agency.set_budget(Budget())
    assert (await thread.wait(PATIENCE)).status == "canceled", "it is over, whatever there is to spend"


async def test_many_who_spend_at_once_overdraw_by_no_more_than_a_call_each(agency: AgencyHandle, ledger: Path) -> None:
    await agency.set_budget(Budget(tokens=10 * CALL))
    threads = await asyncio.gather(*(agency.create_thread("broker", steps(ledger, 11)) for _ in range(4)))
    for thread in threads:
        await paused(thread)
    used = await tokens(agency)
    assert 10 * CALL <= used <= 13 * CALL
    await agency.set_budget(Budget(tokens=1_000 * CALL))
    for thread in threads:
        assert (await settled(thread)).data == "done"
    assert await tokens(agency) == 44 * CALL


async def test_children_spend_their_agencys_budget_and_go_on_with_it(agency: AgencyHandle) -> None:
    await agency.set_budget(Budget(tokens=CALL))
    thread = await agency.create_thread("broker", script(calls(task(say("a part"), to="runner")), say("whole")))

    async def exhausted() -> str | None:
        page = await agency.threads(reason="exhausted")
        return page.threads[0].id if page.threads else None

    assert await eventually(exhausted) != thread.id
    await agency.set_budget(Budget())
    assert (await settled(thread)).data == "whole"


@pytest.mark.kills
@pytest.mark.parametrize("dies", ["hosts", "directory", "everything"])
async def test_who_waits_for_a_budget_goes_on_when_it_is_raised_whoever_has_died(
    install: Install, ledger: Path, dies: str
) -> None:
    cluster = await install(hibernate_after=1.0)
    agency = await cluster.create_agency("bakery")
    await agency.set_budget(Budget(tokens=CALL))
    threads = [await agency.create_thread("broker", steps(ledger, 2)) for _ in range(3)]
    for thread in threads:
        await paused(thread)
    if dies != "hosts":
        await eventually(lambda: asleep(cluster, *threads))
    if dies in ("hosts", "everything"):
        for pid in await hosts(cluster):
            os.kill(pid, signal.SIGKILL)
    if dies in ("directory", "everything"):
        os.kill(directory_of(cluster), signal.SIGKILL)
    assert (await agency.usage()).exhausted == "ERR_AGENCY_TOKENS"
    await agency.set_budget(Budget(tokens=100 * CALL))
    for thread in threads:
        assert (await settled(thread)).data == "done"
    await eventually(lambda: uses(agency, 6 * CALL))


async def test_an_agency_that_dies_right_after_its_budget_was_raised_still_tells_its_threads(
    install: Install, ledger: Path
) -> None:
    cluster = await install()
    agency = await cluster.create_agency("bakery")
    await agency.set_budget(Budget(tokens=CALL))
    thread = await agency.create_thread("broker", steps(ledger, 2))
    await paused(thread)
    await cluster.stop()
    store = AgencyStore.open(Files(cluster.settings.data_dir).of(Address(agency.id)), LOCAL)
    store.set_layer(Budget(), "owner")  # as if it had done no more than that
    store.close()
    cluster = await install()
    assert (await settled(cluster.agency(agency.id).thread(thread.id))).data == "done"


@pytest.mark.kills
async def test_a_ceiling_whose_agency_dies_before_it_has_told_the_hosts_holds_for_runs_at_work(
    install: Install, ledger: Path
) -> None:
    cluster = await install()
    agency = await cluster.create_agency("bakery")
    thread = await agency.create_thread("broker", script(calls(holding(ledger, "x")), say("never")))
    await eventually(lambda: "begin:x" in ledger.read_text())
    store = AgencyStore.open(Files(cluster.settings.data_dir).of(Address(agency.id)), LOCAL)
    store.set_layer(RunCeiling(tokens=CALL), "owner")  # as if it had done no more than that
    store.close()
    os.kill(await home_process(cluster, agency.id), signal.SIGKILL)
    assert (await agency.ceiling()).tokens == CALL  # the next process of the agency has begun, and has told the hosts
    let_go(ledger, "x")
    assert (await paused(thread)).errors[0].code == "ERR_TOKEN_LIMIT"
