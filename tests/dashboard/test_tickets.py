"""Tickets open live feeds and nothing else, once, and one holder's never cost another holder's."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from actors.directory.tickets import EACH
from tests.support.gateway_requests import Json, assert_problem, create, message, socket_events
from tests.support.gateways import Server
from tests.support.scripted_system import say

SECRET = "sesame"
STREAM = {"Accept": "text/event-stream"}
FEEDS = {("GET", "/agency/{agency_id}/events"), ("GET", "/agency/{agency_id}/agent/{thread_id}/events")}
NO_CREDENTIAL = {"/healthz", "/settle/{token}", "/agency/{agency_id}/x/guests/letter"}
"""Routes that need none, or have one of their own."""


@pytest.fixture(scope="module")
def guarded(gateway: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A gateway with a secret, in front of the same installation."""
    server = Server(gateway.settings, tmp_path_factory.mktemp("guarded") / "log", AGENCY_SECRET=SECRET)
    yield server
    server.stop()


@pytest.fixture
def owner(guarded: Server) -> Iterator[httpx.Client]:
    with guarded.client(Authorization=f"Bearer {SECRET}") as client:
        yield client


def holder(server: Server, owner: httpx.Client, agency: str, role: str = "viewer") -> httpx.Client:
    made: Json = owner.post(f"/agency/{agency}/keys", json={"name": role, "role": role}).json()
    return server.client(Authorization=f"Bearer {made['key']}")


def ticket_of(client: httpx.Client) -> str:
    return str(client.post("/tickets").json()["ticket"])


async def test_no_route_but_the_feeds_takes_a_ticket_and_none_uses_it_up(guarded: Server, owner: httpx.Client) -> None:
    """Whatever a request says that it accepts. A new route is among these by itself."""
    agency = owner.post("/agencies").json()["id"]
    thread = create(owner, agency, say("hello"))
    document = owner.get("/openapi.json").json()["paths"]
    routes = {(method.upper(), path) for path, methods in document.items() for method in methods}
    assert routes > FEEDS
    body = {"name": "mine", "role": "admin", "agentType": "clerk", "messages": message(say("more"))}
    with holder(guarded, owner, agency, "admin") as admin, guarded.client() as stranger:
        ticket = ticket_of(admin)
        for method, path in sorted(routes):
            filled = path.replace("{agency_id}", agency).replace("{thread_id}", thread)
            address = f"{re.sub(r'{[a-z_]+}', 'x', filled)}?ticket={ticket}"
            if path in NO_CREDENTIAL:
                continue
            for headers in ({}, STREAM):
                if (method, path) in FEEDS and headers:
                    continue
                given = None if method in ("GET", "DELETE") else body
                answer = stranger.request(method, address, json=given, headers=headers)
                assert answer.status_code == 401, (method, path, headers, answer.text)
        keys = admin.get(f"/agency/{agency}/keys").json()["keys"]
        assert [each["name"] for each in keys] == ["admin"]
    first = await anext(socket_events(guarded, f"/agency/{agency}/ws?after=0&ticket={ticket}"))
    assert first["type"] == "thread.created"


def test_a_ticket_opens_each_event_stream_once(guarded: Server, owner: httpx.Client) -> None:
    agency = owner.post("/agencies").json()["id"]
    thread = create(owner, agency)
    with holder(guarded, owner, agency) as viewer, guarded.client() as browser:
        for path in (f"/agency/{agency}/events", f"/agency/{agency}/agent/{thread}/events"):
            ticket = ticket_of(viewer)
            with browser.stream("GET", path, params={"ticket": ticket}, headers=STREAM) as stream:
                assert stream.status_code == 200
                assert "thread.created" in next(line for line in stream.iter_lines() if line.startswith("data:"))
            assert_problem(browser.get(path, params={"ticket": ticket}, headers=STREAM), 401, "ERR_UNAUTHORIZED")
        other = owner.post("/agencies").json()["id"]
        refused = browser.get(f"/agency/{other}/events", params={"ticket": ticket_of(viewer)}, headers=STREAM)
        assert_problem(refused, 404, "ERR_NOT_FOUND")


def test_a_ticket_makes_no_other_ticket(guarded: Server, owner: httpx.Client) -> None:
    ticket = ticket_of(owner)
    with guarded.client() as stranger:
        for headers in ({}, STREAM):
            refused = stranger.post("/tickets", params={"ticket": ticket}, headers=headers)
            assert_problem(refused, 401, "ERR_UNAUTHORIZED")


async def test_a_key_with_ever_more_tickets_loses_only_its_own(guarded: Server, owner: httpx.Client) -> None:
    mine, theirs = (owner.post("/agencies").json()["id"] for _ in range(2))
    for agency in (mine, theirs):
        create(owner, agency)
    with (
        holder(guarded, owner, mine) as greedy,
        holder(guarded, owner, mine) as colleague,
        holder(guarded, owner, theirs) as other,
    ):
        kept = [(theirs, ticket_of(other)), (mine, ticket_of(colleague)), (mine, ticket_of(owner))]
        first = ticket_of(greedy)
        latest = [ticket_of(greedy) for _ in range(EACH)][-1]
    for agency, ticket in [*kept, (mine, latest)]:
        assert await anext(socket_events(guarded, f"/agency/{agency}/ws?after=0&ticket={ticket}"))
    with guarded.client() as browser:
        refused = browser.get(f"/agency/{mine}/events", params={"ticket": first}, headers=STREAM)
    assert_problem(refused, 401, "ERR_UNAUTHORIZED")
