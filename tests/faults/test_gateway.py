"""Everything behind a gateway dies, and it comes back by itself; `make up` from nothing shows what it promises."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from actors import Settings
from actors.cluster import local_ray
from agency.client import Client
from dashboard.gateway.discovery import running_gateways
from tests.support.gateway_requests import create, finished, follow_to_the_end, stored
from tests.support.gateways import Server
from tests.support.scripted_system import calls, noting, say
from tests.support.waiting import eventually, eventually_sync

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A gateway with a Ray of its own."""
    settings = Settings(system="tests.support.scripted_system:system", data_dir=tmp_path / "data", namespace="agency")
    made = Server(settings, tmp_path / "log")
    yield made
    made.stop()
    local_ray.stop(settings.data_dir)


def kill_everything(data_dir: Path) -> int:
    running = local_ray.find(data_dir)
    assert running is not None
    for pid in (killed := running.processes):
        os.kill(pid, signal.SIGKILL)
    return len(killed)


async def test_when_every_ray_process_is_killed_the_gateway_starts_it_anew_and_runs_go_on(
    server: Server, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    ledger.touch()
    with server.client() as http:
        agency = http.post("/agencies").json()["id"]
        steps = [calls(noting(ledger, f"{n}", 0.3)) for n in range(12)]
        thread = create(http, agency, *steps, say("done"))
    watching = asyncio.create_task(follow_to_the_end(server, f"/agency/{agency}/agent/{thread}/ws"))
    await eventually(lambda: "end:3" in ledger.read_text())
    assert await asyncio.to_thread(kill_everything, server.settings.data_dir) > 5
    seen = await watching
    with server.client() as http:
        run = await asyncio.to_thread(finished, http, agency, thread)
        every = await asyncio.to_thread(stored, http, agency, thread)
        assert http.get("/healthz").status_code == 200
    assert (run["status"], run["data"]) == ("completed", "done")
    assert seen == every
    assert server.process.poll() is None  # the same process, with the same socket
    ended = [line.split()[0] for line in ledger.read_text().splitlines() if line.startswith("end:")]
    assert sorted(ended) == sorted(f"end:{n}" for n in range(12))


def test_make_up_from_nothing_leads_to_a_demo_that_can_be_visited_and_approved(tmp_path: Path) -> None:
    """What `make up` runs, and what a visitor does then."""
    log = tmp_path / "log"
    with log.open("wb") as out:
        command = [str(Path(sys.executable).with_name("agency")), "serve", "--port", "0"]
        data = {"AGENCY_DATA_DIR": str(tmp_path / "data")}
        process = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, **data}, stdout=out, stderr=out)
    try:
        eventually_sync(lambda: "dashboard" in log.read_text() or process.poll() is not None, 90)
        (note,) = running_gateways(tmp_path / "data")
        assert note.url in log.read_text()
        visit(note.url)
    except BaseException:
        process.kill()
        raise
    finally:
        down = subprocess.run(
            [command[0], "down", "--data-dir", str(tmp_path / "data")],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        code = process.wait(10)
    assert ("stopped" in down.stderr, code) == (True, 0)
    assert running_gateways(tmp_path / "data") == []
    assert local_ray.find(tmp_path / "data") is None
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("data", "log")] == []


def visit(url: str) -> None:
    page = httpx.get(url)
    assert (page.status_code, "<title>" in page.text) == (200, True)
    with Client(url) as client:
        (found,) = client.agencies()
        assert found.summary.name == "Demo"
        agency = client.agency(found.id)
        threads = list(agency.threads())
        welcome = next(thread for thread in threads if thread.summary.parent is None)
        thread = agency.thread(welcome.id)
        run = thread.wait(timeout=60)
        assert run.meta.pause_reason == "hitl"
        state = thread.state().state.model_dump()
        assert state["todos"] and state["files"]
        assert len(list(agency.threads(parent=welcome.id))) >= 2
        assert [each.thread_id for each in agency.approvals()] == [welcome.id]
        thread.approve()
        assert thread.wait(timeout=60).status == "completed"
