"""A system that another program serves: under any ASGI server, alone or mounted in an app, at any path."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect

from actors import Settings
from agency import AgentSystem, DefinitionError
from agency.client import AsyncClient
from agency.define.export import AsgiApp, AsgiMessage
from tests.support.gateway_requests import assert_problem, create, finished
from tests.support.gateways import Server
from tests.support.paths import ROOT
from tests.support.scripted_system import say, system
from tests.support.waiting import eventually_sync

Run = Callable[..., str]


@pytest.fixture
def run(gateway: Server, ray_settings: Settings, tmp_path: Path) -> Iterator[Run]:
    """Have uvicorn run one of the programs on the installation that tests share; its address."""
    running: list[subprocess.Popen[bytes]] = []

    def start(app: str, path: str = "", **environment: str) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "uvicorn", f"tests.support.exported_apps:{app}", "--port", str(port)]
        env = {**os.environ, **_environment(ray_settings), **environment}
        log = tmp_path / f"{app}.log"
        with log.open("wb") as out:
            running.append(subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, stderr=out))
        url = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            assert running[-1].poll() is None, log.read_text()
            try:
                return httpx.get(f"{url}{path}/healthz", timeout=60).status_code == 200
            except httpx.TransportError:
                return False

        eventually_sync(answers, 90)
        return url

    yield start
    for each in running:
        each.send_signal(signal.SIGTERM)
        assert each.wait(30) in (0, -signal.SIGTERM)  # uvicorn stops well, and raises the signal again


def _environment(settings: Settings) -> dict[str, str]:
    return {
        "AGENCY_NAMESPACE": settings.namespace,
        "AGENCY_DATA_DIR": str(settings.data_dir),
        "AGENCY_HIBERNATE_AFTER": "60",
    }


async def test_an_app_mounts_a_system_below_a_path(run: Run) -> None:
    url = run("host", "/agents")
    with httpx.Client(base_url=f"{url}/agents", timeout=60) as http:
        agency = http.post("/agencies", json={"name": "bakery"}).json()["id"]
        thread = create(http, agency, say("done"))
        assert finished(http, agency, thread)["data"] == "done"
        assert http.get(url).json() == "the host's own"
        assert http.get("/openapi.json").json()["servers"] == [{"url": "/agents"}]
        assert http.delete("/agencies").headers["allow"] == "GET, POST"
        page = http.get("/a/bakery")
        assert '<base href="/agents/" />' in page.text
        asset = page.text.split('src="./')[1].split('"')[0]
        assert http.get(f"/{asset}").headers["content-type"].startswith("text/javascript")
    path = f"/agents/agency/{agency}/agent/{thread}/ws?after=0"
    async with connect(url.replace("http", "ws") + path, proxy=None) as opened:
        assert json.loads(await opened.recv())["seq"] == 1
    async with AsyncClient(f"{url}/agents") as client:
        assert (await client.agency(agency).thread(thread).wait()).data == "done"


def test_a_host_that_begins_no_lifespan_joins_with_the_first_request(run: Run) -> None:
    url = run("forgetful", "/deep/down")
    with httpx.Client(base_url=f"{url}/deep/down", timeout=60) as http:
        assert_problem(http.get("/agencies"), 401, "ERR_UNAUTHORIZED")
        http.headers["Authorization"] = "Bearer s3cret"
        agency = http.post("/agencies", json={"name": "bakery"}).json()["id"]
        assert finished(http, agency, create(http, agency, say("done")))["data"] == "done"


def test_a_system_is_served_by_a_server_alone(run: Run) -> None:
    url = run("alone")
    with httpx.Client(base_url=url, timeout=60) as http:
        agency = http.post("/agencies", json={"name": "bakery"}).json()["id"]
        assert finished(http, agency, create(http, agency, say("done")))["data"] == "done"


# Without a server.


class Asgi:
    """As much of an ASGI server as a test needs."""

    def __init__(self, app: AsgiApp, **scope: object) -> None:
        self.sent: list[AsgiMessage] = []
        self._scope = scope
        self._app = app

    async def said(self, *messages: AsgiMessage) -> list[AsgiMessage]:
        coming = iter(messages)

        async def receive() -> AsgiMessage:
            return next(coming)

        async def send(message: AsgiMessage) -> None:
            self.sent.append(message)

        await self._app({"asgi": {"version": "3.0"}, **self._scope}, receive, send)
        return self.sent


async def test_what_cannot_be_served_fails_the_lifespan_with_words_that_say_why(tmp_path: Path) -> None:
    lost = AgentSystem("demo:instant").export(data_dir=tmp_path)
    (failed,) = await Asgi(lost.handler, type="lifespan").said({"type": "lifespan.startup"})
    assert failed["type"] == "lifespan.startup.failed"
    assert "global name of a module" in failed["message"]
    wrong = system.export(prot=1)
    with pytest.raises(DefinitionError, match=r"export\(\) has no settings \['prot'\]; there are"):
        async with wrong.lifespan(None):
            pass
    with pytest.raises(DefinitionError, match=r"has no settings \['port'\]"):
        await Asgi(system.export(port=1).handler, type="http").said()


async def test_without_a_secret_only_clients_on_the_same_machine_are_served(
    gateway: Server, ray_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in _environment(ray_settings).items():
        monkeypatch.setenv(name, value)
    exported = system.export(system=ray_settings.system)
    async with exported.lifespan(None):
        for client, status in (("127.0.0.1", 200), ("203.0.113.7", 403)):
            transport = httpx.ASGITransport(exported.handler, client=(client, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                assert (await http.get("/agencies")).status_code == status
        scope = {"type": "websocket", "path": "/agency/none/ws", "headers": [(b"host", b"localhost")]}
        plain = Asgi(exported.handler, **scope, query_string=b"", client=("127.0.0.1", 1), scheme="ws")
        async with asyncio.timeout(30):
            assert await plain.said({"type": "websocket.connect"}) == [{"type": "websocket.close", "code": 4404}]
