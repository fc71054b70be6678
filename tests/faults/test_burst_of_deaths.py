"""Hosts die faster than they can start. When that ends, every run goes on, though nobody asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import Cluster, Settings
from tests.support.processes import kill, session_of, titled
from tests.support.scripted_system import calls, say, script
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(300)  # processes start and die, on machines that may be slow
DEATHS = 6


async def test_runs_go_on_by_themselves_after_a_burst_of_deaths(own_ray: Settings, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    ledger.touch()
    cluster = await Cluster.join(own_ray)
    agency = await cluster.create_agency("burst")
    for i in range(4):
        note = ("note", {"ledger": str(ledger), "what": f"t{i}", "seconds": 0.1})
        await agency.create_thread("clerk", script(calls(note, delay=1.0), say("done")))
    for _ in range(DEATHS):
        kill(*await eventually(lambda: titled("ray::Host", session_of(own_ray)), 60, every=0))
    await eventually(lambda: all(f"end:t{i} " in ledger.read_text() for i in range(4)), 60)
    await cluster.down()
