"""A system that another program serves: under any ASGI server, alone or mounted in an app, at any path."""

from __future__ import annotations

import asyncio
import json
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
from tests.support.programs import Program, environment_of
from tests.support.scripted_system import say, system


async def test_an_app_mounts_a_system_below_a_path(program: Program) -> None:
    url = program("host", "/agents")
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


def test_a_host_that_begins_no_lifespan_joins_with_the_first_request(program: Program) -> None:
    url = program("forgetful", "/deep/down")
    with httpx.Client(base_url=f"{url}/deep/down", timeout=60) as http:
        assert_problem(http.get("/agencies"), 401, "ERR_UNAUTHORIZED")
        http.headers["Authorization"] = "Bearer s3cret"
        agency = http.post("/agencies", json={"name": "bakery"}).json()["id"]
        assert finished(http, agency, create(http, agency, say("done")))["data"] == "done"


def test_a_system_is_served_by_a_server_alone(program: Program) -> None:
    url = program("alone")
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


async def test_whatever_kept_it_from_joining_it_tries_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[str] = []

    class Joined:
        async def close(self) -> None:
            attempts.append("closed")

    async def join(installation: Settings) -> Joined:
        attempts.append("joins")
        if len(attempts) == 1:
            raise OSError("no network yet")
        return Joined()

    monkeypatch.setattr("dashboard.gateway.joining.join", join)
    exported = system.export(data_dir=tmp_path, system="tests.support.scripted_system:system")
    with pytest.raises(OSError, match="no network yet"):
        async with exported.lifespan(None):
            pass
    async with exported.lifespan(None):
        pass
    assert attempts == ["joins", "joins", "closed"]


async def test_without_a_secret_only_clients_on_the_same_machine_are_served(
    gateway: Server, ray_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment_of(ray_settings).items():
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
