"""Hosts that do not answer: they get nothing new, are told of, and are replaced; what they come back with counts no more.

Processes are stopped for real, with SIGSTOP, and a tool blocks its event loop for real.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from actors import Cluster, HostStatus, ThreadHandle
from agency import EventType
from tests.support.clusters import Install
from tests.support.processes import lives
from tests.support.scripted_system import calls, let_go, holding, noted, noting, say, script
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


async def home(cluster: Cluster, thread: ThreadHandle) -> str:
    return next(iter((await cluster.where([thread.address])).values()), "")


async def test_a_stopped_host_gets_nothing_new_and_answers_again_when_it_goes_on(install: Install) -> None:
    cluster = await install(actors_per_node=3, warm_hosts=2, silent_after=1.5, replace_after=600)
    agency = await cluster.create_agency("bakery")
    ready = await eventually(lambda: hosts(cluster, "ready", least=2), LONG)
    with stopped(*(host.pid for host in ready)):
        assert (await cluster.ready()).ready in (True, False)  # it answers, whatever it says

        async def unready() -> str:
            return (await cluster.ready()).reason

        assert await eventually(unready, LONG, every=0.005) == "no host answers"
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
        assert (await cluster.ready()).ready
        assert sum(host.state != "silent" for host in (await cluster.status()).hosts) <= 2, "three, and one in place"
    await eventually(lambda: hosts(cluster, "ready", least=3), LONG)
    assert (await cluster.metrics()).host_deaths == 0
