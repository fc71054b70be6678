"""A thread that kills its host each time it is woken is given up after a few tries; the others in its host are not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actors import Cluster, Settings
from agency import EventType
from tests.support.scripted_system import calls, say, script

pytestmark = pytest.mark.timeout(300)  # processes start and die, on machines that may be slow


async def test_a_thread_that_kills_its_host_each_time_is_parked_as_an_error_and_the_others_go_on(
    own_ray: Settings, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    ledger.touch()
    book = str(ledger)
    cluster = await Cluster.join(own_ray.model_copy(update={"actors_per_node": 1, "poison_after": 4}))
    agency = await cluster.create_agency("ward")
    good = [
        await agency.create_thread(
            "clerk", script(calls(("note", {"ledger": book, "what": f"{i}"})), say("fine", delay=2))
        )
        for i in range(10)
    ]
    # A parent that waits for the poison learns of it, too.
    poison = script(calls(("die", {"ledger": book, "what": "poison"}), ("note", {"ledger": book, "what": "beside"})))
    task = ("task", {"description": poison, "subagentType": "worker"})
    parent = await agency.create_thread("clerk", script(calls(task), say("my child was poison")))
    runs = await asyncio.gather(*(thread.wait(100) for thread in good))
    assert [run.data for run in runs] == ["fine"] * 10
    assert (await parent.wait(100)).data == "my child was poison"
    (child,) = (await agency.threads(parent=parent.id)).threads
    run = await agency.thread(child.id).wait(10)
    assert run.status == "error"
    assert [error.code for error in run.errors] == ["ERR_POISON"]
    tries = ledger.read_text().count("die:poison")
    assert 4 <= tries <= 6, tries
    events = await agency.thread(child.id).stored_events(0, 100)
    results = [event for event in events if event.type in (EventType.TOOL_OUTPUT, EventType.TOOL_ERROR)]
    assert len(results) == 2, "each of its calls has a result"
    again = await agency.thread(child.id).invoke(script(say("alive")))
    assert again.run_id.endswith(".2")
    assert (await agency.thread(child.id).wait(30)).data == "alive"
    await cluster.down()
