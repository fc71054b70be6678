"""Gateways come and go and no run notices; changed code is taken up; what cannot be served is said in a line."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from actors import Settings
from actors.cluster import local_ray
from tests.support.gateway_requests import create, finished, follow_to_the_end, socket_events, stored
from tests.support.gateways import Serve, Server
from tests.support.paths import ROOT
from tests.support.scripted_system import calls, holding, let_go, noting, say

AGENT = """
from agency import AgentSystem, tool


@tool
async def answer() -> str:
    \"\"\"Answer.\"\"\"
    return "{answer}"


system = AgentSystem("demo:instant").add_tool(answer).add_agent(name="clerk", description="-", prompt="-")
"""


@pytest.mark.kills
async def test_a_gateway_that_is_killed_and_restarted_in_the_middle_of_a_run_is_not_noticed_by_it(
    serve: Serve, ledger: Path
) -> None:
    server = serve()
    with server.client() as http:
        agency = http.post("/agencies").json()["id"]
        steps = [calls(noting(ledger, f"{n}", 0.3)) for n in range(12)]
        thread = create(http, agency, *steps, calls(holding(ledger, "last")), say("done"))
    watchers = [asyncio.create_task(follow_to_the_end(server, f"/agency/{agency}/agent/{thread}/ws")) for _ in range(5)]
    for _ in range(2):
        async for _event in socket_events(server, f"/agency/{agency}/agent/{thread}/ws?after=0"):
            break
        server.kill()
        await asyncio.to_thread(server.restart)
    let_go(ledger, "last")
    with server.client() as http:
        assert finished(http, agency, thread)["data"] == "done"
        every = stored(http, agency, thread)
    for watched in await asyncio.gather(*watchers):
        assert watched == every
    began = [line.split() for line in ledger.read_text().splitlines() if line.startswith("begin:")]
    assert [what for what, *_ in began] == [*(f"begin:{n}" for n in range(12)), "begin:last"]
    assert len({pid for _, _, pid, _ in began}) == 1


async def test_gateways_side_by_side_are_one_server(gateway: Server, serve: Serve, http: httpx.Client) -> None:
    other = serve()
    with other.client() as second:
        body = {"name": "shared", "idempotencyKey": secrets.token_hex(4)}
        agency = http.post("/agencies", json=body).json()
        assert second.post("/agencies", json=body).json() == agency
        thread = create(http, agency["id"], say("done"))
        assert finished(second, agency["id"], thread)["data"] == "done"
        ticket = http.post("/tickets").json()["ticket"]
        path = f"/agency/{agency['id']}/agent/{thread}/ws?after=0&ticket={ticket}"
        assert (await anext(socket_events(other, path)))["seq"] == 1
        key = second.post(f"/agency/{agency['id']}/keys", json={"name": "k", "role": "viewer"}).json()
        with gateway.client(Authorization=f"Bearer {key['key']}") as holder:
            assert holder.get(f"/agency/{agency['id']}").status_code == 200
            second.delete(f"/agency/{agency['id']}/keys/{key['id']}")
            assert holder.get(f"/agency/{agency['id']}").status_code == 401


@pytest.fixture
def own(ray_settings: Settings, tmp_path: Path) -> Iterator[tuple[Settings, str]]:
    """An installation with a system in a folder of its own, on the Ray that all tests share."""
    local_ray.join(ray_settings)
    running = local_ray.find(ray_settings.data_dir)
    assert running is not None
    (tmp_path / "project").mkdir()
    settings = ray_settings.model_copy(
        update={
            "system": "agents:system",
            "data_dir": tmp_path / "data",
            "namespace": f"own-{secrets.token_hex(4)}",
            "python_path": (str(tmp_path / "project"),),
        }
    )
    yield settings, running.address
    command = [sys.executable, "-m", "dashboard.command", "down", "--data-dir", str(settings.data_dir)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    assert "stopped" in done.stderr, "stopping needs nothing but the folder"


def test_changed_code_and_changed_keys_are_taken_up_by_the_next_gateway(
    own: tuple[Settings, str], tmp_path: Path
) -> None:
    settings, address = own
    module = tmp_path / "project" / "agents.py"
    path = json.dumps(settings.python_path)
    module.write_text(AGENT.format(answer="first"))
    server = Server(settings, tmp_path / "log", AGENCY_RAY_ADDRESS=address, AGENCY_PYTHON_PATH=path)

    def answer(http: httpx.Client) -> str:
        body = {"agentType": "clerk", "messages": [{"content": "call answer {}"}]}
        thread = http.post(f"/agency/{agency}/agents", json=body).json()["id"]
        finished(http, agency, thread)
        messages = http.get(f"/agency/{agency}/agent/{thread}/state").json()["state"]["messages"]
        (said,) = [message["content"] for message in messages if message["role"] == "tool"]
        return str(said)

    def hosts(http: httpx.Client) -> set[int]:
        return {host["pid"] for host in http.get("/status").json()["hosts"] if host["pid"]}

    with server.client() as http:
        agency = http.post("/agencies").json()["id"]
        assert answer(http) == "first"
        before = hosts(http)
        server.stop()
        server.restart()
        assert before & hosts(http)
        module.write_text(AGENT.format(answer="second"))
        server.kill()
        server.restart()
        assert not before & (now := hosts(http))
        assert answer(http) == "second"
        server.kill()
        server.environment["OPENAI_API_KEY"] = "sk-another"
        server.restart()
        assert not now & hosts(http)
    server.stop()


def test_a_gateway_that_was_there_before_finds_the_new_hosts(own: tuple[Settings, str], tmp_path: Path) -> None:
    settings, address = own
    module = tmp_path / "project" / "agents.py"
    environment = {"AGENCY_RAY_ADDRESS": address, "AGENCY_PYTHON_PATH": json.dumps(settings.python_path)}
    module.write_text(AGENT.format(answer="first"))
    old = Server(settings, tmp_path / "old.log", **environment)
    with old.client() as http:
        agency = http.post("/agencies").json()["id"]
        module.write_text(AGENT.format(answer="second"))
        new = Server(settings, tmp_path / "new.log", **environment)
        thread = create(http, agency, agent="clerk", messages=[{"content": "hello"}])
        assert finished(http, agency, thread)["status"] == "completed"
        assert http.get("/healthz").status_code == 200
    assert (old.stop(), new.stop()) == (0, 0)


def test_what_hosts_cannot_import_ends_the_start_within_seconds_and_is_said_everywhere(
    own: tuple[Settings, str], tmp_path: Path
) -> None:
    settings, address = own
    lines = ["from pathlib import Path", "if b'ray::' in Path('/proc/self/cmdline').read_bytes():"]
    lines += ["    import only_on_the_head", AGENT.format(answer="-")]
    (tmp_path / "project" / "agents.py").write_text("\n".join(lines))
    environment = {
        **os.environ,
        "AGENCY_NAMESPACE": settings.namespace,
        "AGENCY_RAY_ADDRESS": address,
        "AGENCY_PYTHON_PATH": json.dumps(settings.python_path),
        "AGENCY_DATA_DIR": str(settings.data_dir),
        "AGENCY_STORAGE": "shared",
    }

    def told(*arguments: str) -> str:
        command = [sys.executable, "-m", "dashboard.command", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr

    reason = "cannot load agents:system: No module named 'only_on_the_head'"
    assert reason in told("serve", settings.system, "--port", "0")
    assert reason in told("status")
    assert reason in told("doctor", "--system", settings.system)


# What cannot be served.


def attempt(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dashboard.command", "serve", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("arguments", "environment", "problem"),
    [
        (["nothing.like.it:system"], {}, "nothing"),
        (["tests.support.scripted_system:nothing"], {}, "nothing"),
        (["--port", "99999"], {}, "port"),
        (["--host", "0.0.0.0"], {}, "AGENCY_SECRET"),
        (["--host", "192.0.2.1", "--insecure"], {}, "cannot listen"),
        ([], {"AGENCY_RATE": "-1"}, "rate"),
    ],
)
def test_what_cannot_be_served_is_said_in_a_line_or_two(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], problem: str
) -> None:
    port = [] if "--port" in arguments else ["--port", "0"]
    done = attempt(*arguments, *port, "--data-dir", str(tmp_path / "data"), **environment)
    assert done.returncode == 1
    assert problem in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 1_000
    assert not (tmp_path / "data").exists()


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = attempt("--port", port, "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 1
    assert port in done.stderr
    assert "--port" in done.stderr
