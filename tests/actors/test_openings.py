"""What middleware keep open in hosts: opened once a host, closed when threads hibernate and hosts end."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import Cluster
from tests.support.clusters import Install, asleep
from tests.support.scripted_system import calls, noted, say, script
from tests.support.waiting import PATIENCE, eventually


@pytest.fixture
async def opening(install: Install, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """An installation with one host, whose threads hibernate soon."""
    monkeypatch.setenv("OPENINGS_LEDGER", str(ledger))
    more = {"warm_hosts": 0, "actors_per_node": 1, "hibernate_after": 1.0}
    return await install(system="tests.support.opening_system:system", **more)


async def test_a_host_opens_once_and_closes_with_its_threads_and_itself(opening: Cluster, ledger: Path) -> None:
    agency = await opening.create_agency("bakery")
    lines = script(calls(("fetch", {})), say("done"))
    threads = [await agency.create_thread("clerk", lines) for _ in range(2)]
    for thread in threads:
        assert (await thread.wait(PATIENCE)).data == "done"
    await eventually(lambda: asleep(opening, *threads))
    for thread in threads:
        assert noted(ledger).count(f"thread-open:{thread.id}") == noted(ledger).count(f"thread-close:{thread.id}") == 1
    assert noted(ledger).count("process-open") == 1
    await eventually(lambda: noted(ledger)[-1] == "process-close")  # an empty host is given back
    await threads[0].invoke(lines)
    assert (await threads[0].wait(PATIENCE)).data == "done"
    await opening.stop()
    assert noted(ledger)[-2:] == [f"thread-close:{threads[0].id}", "process-close"]
    assert noted(ledger).count("process-open") == noted(ledger).count("process-close") == 2


async def test_one_that_cannot_open_lets_its_threads_run_and_is_tried_again(opening: Cluster, ledger: Path) -> None:
    away = ledger.with_name("away")
    away.touch()
    agency = await opening.create_agency("bakery")
    thread = await agency.create_thread("clerk", script(calls(("fetch", {})), say("done")))
    run = await thread.wait(PATIENCE)
    assert (run.status, run.data) == ("completed", "done")
    assert [each.kind for each in run.meta.warnings] == ["tools_unavailable"]
    state = await thread.state()
    assert "ConnectionError: the server is away" in str(state.more["unavailable"])
    assert "fetch is not available now" in state.messages[2].content
    away.unlink()

    async def fetched() -> bool:
        await thread.invoke(script(calls(("fetch", {})), say("done")))
        await thread.wait(PATIENCE)
        return (await thread.state()).messages[-2].content == "fetched"

    await eventually(fetched, every=0.5)
    assert "unavailable" not in (await thread.state()).more
