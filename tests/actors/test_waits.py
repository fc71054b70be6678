"""Calls that wait for the outside, in hosts: asleep, past their deadlines, and after everything has died."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from actors import Cluster, ThreadHandle
from agency import NotFound
from tests.support.clusters import Install, asleep, directory_of
from tests.support.scripted_system import calls, say, script
from tests.support.waiting import PATIENCE, eventually


async def waiting(cluster: Cluster, ledger: Path, **more: int) -> tuple[ThreadHandle, str]:
    """A thread whose call waits, and its token."""
    agency = await cluster.create_agency("bank")
    asked = script(calls(("await_payment", {"ledger": str(ledger), **more})), say("done"))
    thread = await agency.create_thread("clerk", asked)
    await eventually(lambda: ledger.exists() and ledger.read_text())
    return thread, ledger.read_text().split()[-1]


async def result(thread: ThreadHandle) -> str:
    assert (await thread.wait(PATIENCE)).data == "done"
    return next(message.content for message in (await thread.state()).messages if message.role == "tool")


async def test_a_thread_that_waits_sleeps_and_is_woken_by_what_settles_its_call(
    install: Install, tmp_path: Path
) -> None:
    cluster = await install(hibernate_after=0.3)
    thread, token = await waiting(cluster, tmp_path / "tokens")
    await eventually(lambda: asleep(cluster, thread))
    other = await (await cluster.create_agency("other")).create_thread("clerk")
    with pytest.raises(NotFound):
        await other.settle(token, "paid")
    assert (await thread.settle(token, "paid")).settled
    assert await result(thread) == "paid"
    assert (await thread.settle(token, "twice")).status == "settled"


async def test_a_thread_that_sleeps_is_woken_for_the_deadline_of_its_call(install: Install, tmp_path: Path) -> None:
    cluster = await install(hibernate_after=0.3)
    thread, _ = await waiting(cluster, tmp_path / "tokens", timeout_ms=3_000)
    await eventually(lambda: asleep(cluster, thread))
    assert "did not come within 3 s" in await result(thread)


@pytest.mark.kills
async def test_a_wait_outlives_hosts_and_directory(install: Install, tmp_path: Path) -> None:
    cluster = await install(hibernate_after=0.3)
    thread, token = await waiting(cluster, tmp_path / "tokens")
    await eventually(lambda: asleep(cluster, thread))
    pids = [host.pid for host in (await cluster.status()).hosts if host.pid is not None]  # some may be starting
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    os.kill(directory_of(cluster), signal.SIGKILL)
    assert (await thread.settle(token, "paid")).settled
    assert await result(thread) == "paid"
