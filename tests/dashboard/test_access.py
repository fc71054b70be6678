"""Who gets in: the secret, keys, tickets, pages of other sites, and how much of everything. Which routes a caller gets
to, and what agencies see of each other, is in `test_isolation.py`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.gateway_fixtures import SECRET
from tests.support.gateway_requests import assert_problem, create, finished, holding, key, socket_events, stored
from tests.support.gateways import Serve, Server
from tests.support.scripted_system import say
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def limited(gateway: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A gateway that lets one other site in, takes small requests only, and has two live connections."""
    environment = {
        "AGENCY_CORS_ORIGINS": '["https://shop.example"]',
        "AGENCY_BODY_BYTES": "2000",
        "AGENCY_SOCKETS": "2",
        "AGENCY_TRUSTED_PROXIES": "127.0.0.1",
    }
    server = Server(gateway.settings, tmp_path_factory.mktemp("limited") / "log", **environment)
    yield server
    server.stop()


# The secret.


def test_the_secret_opens_everything_by_either_header(guarded: Server) -> None:
    for headers in ({b"X-SECRET": SECRET.encode()}, {b"Authorization": b"Bearer " + SECRET.encode()}):
        answer = httpx.get(f"{guarded.url}/agencies", headers=headers)
        assert answer.status_code == 200


async def test_sockets_take_the_secret_as_a_header_or_a_ticket_once(guarded: Server, owner: httpx.Client) -> None:
    agency = owner.post("/agencies").json()["id"]
    thread = create(owner, agency, say("hello"))
    path = f"/agency/{agency}/agent/{thread}/ws?after=0"
    first = await anext(socket_events(guarded, path, **{"X-SECRET": SECRET.encode().decode("latin-1")}))
    assert first["type"] == "thread.created"
    ticket = owner.post("/tickets").json()["ticket"]
    assert await anext(socket_events(guarded, f"{path}&ticket={ticket}")) == first
    for refused in (path, f"{path}&ticket={ticket}", f"{path}&ticket=made-up"):
        with pytest.raises(InvalidStatus) as caught:
            await anext(socket_events(guarded, refused))
        assert caught.value.response.status_code == 401
        assert json.loads(caught.value.response.body)["code"] == "ERR_UNAUTHORIZED"


def test_it_does_not_listen_beyond_loopback_without_a_secret(gateway: Server, serve: Serve) -> None:
    with pytest.raises(AssertionError, match=r"AGENCY_SECRET(.|\n)*--insecure"):
        serve("--host", "0.0.0.0")


def test_no_secret_and_no_key_reaches_the_log(guarded: Server, owner: httpx.Client) -> None:
    agency = owner.post("/agencies").json()["id"]
    made = key(owner, agency, "viewer")
    ticket = owner.post("/tickets").json()["ticket"]
    with holding(guarded, made["key"]) as viewer:
        assert viewer.get(f"/agency/{agency}/agents").status_code == 200
        assert viewer.get(f"/agency/{agency}/agents?ticket={ticket}").status_code == 200
        assert_problem(viewer.delete(f"/agency/{agency}"), 403, "ERR_FORBIDDEN")
    log = guarded.log.read_text()
    assert made["id"] in log  # which says who it was
    for hidden in (SECRET, json.dumps(SECRET)[1:-1], made["key"], made["key"].rpartition(".")[2], ticket):
        assert hidden not in log
    stored = b"".join(path.read_bytes() for path in Path(guarded.settings.data_dir).rglob("agency.db*"))
    assert made["id"].encode() in stored
    assert made["key"].rpartition(".")[2].encode() not in stored


# Keys.


def test_a_revoked_key_opens_nothing_at_once(guarded: Server, owner: httpx.Client) -> None:
    agency = owner.post("/agencies").json()["id"]
    made = key(owner, agency, "admin")
    with holding(guarded, made["key"]) as holder:
        listed = holder.get(f"/agency/{agency}/keys").json()["keys"]
        assert listed == [{name: made[name] for name in ("id", "name", "role", "createdAt")}]
        assert holder.delete(f"/agency/{agency}/keys/{made['id']}").status_code == 204
        assert_problem(holder.get(f"/agency/{agency}/keys"), 401, "ERR_UNAUTHORIZED")
    assert_problem(owner.delete(f"/agency/{agency}/keys/{made['id']}"), 404, "ERR_NOT_FOUND")
    assert_problem(owner.get(f"/agency/{agency}/keys/{made['id']}"), 404, "ERR_NOT_FOUND")


def test_a_run_names_the_key_that_canceled_it(guarded: Server, owner: httpx.Client) -> None:
    agency = owner.post("/agencies").json()["id"]
    thread = create(owner, agency, say("never", delay=60))
    with holding(guarded, key(owner, agency, "operator")["key"]) as holder:
        assert holder.post(f"/agency/{agency}/agent/{thread}/cancel").json() == {"ok": True}
    assert finished(owner, agency, thread)["meta"]["canceledBy"] == {"kind": "person", "name": "the operator's"}
    (told,) = [event["data"]["by"] for event in stored(owner, agency, thread) if event["type"] == "run.canceled"]
    assert told == {"kind": "person", "name": "the operator's"}


def test_a_key_that_is_nearly_right_is_wrong(guarded: Server, owner: httpx.Client) -> None:
    agency = owner.post("/agencies").json()["id"]
    text = key(owner, agency, "admin")["key"]
    other = owner.post("/agencies").json()["id"]
    for wrong in (
        text[:-1] + ("A" if text[-1] != "A" else "B"),
        text.replace(agency, other),
        text.replace(agency, "x"),
    ):
        with holding(guarded, wrong) as stranger:
            assert_problem(stranger.get(f"/agency/{agency}/agents"), 401, "ERR_UNAUTHORIZED")


def test_keys_are_checked_where_no_secret_is_needed_too(gateway: Server, http: httpx.Client, agency: str) -> None:
    made = key(http, agency, "viewer")
    with holding(gateway, made["key"]) as viewer:
        assert viewer.get(f"/agency/{agency}/agents").status_code == 200
        assert_problem(viewer.post(f"/agency/{agency}/agents", json={"agentType": "clerk"}), 403, "ERR_FORBIDDEN")


# Pages of other sites.


def test_an_open_gateway_takes_no_requests_under_foreign_names(gateway: Server) -> None:
    """A page that has its own name pointed to loopback comes with that name."""
    answer = httpx.get(f"{gateway.url}/agencies", headers={"Host": "evil.example"})
    assert_problem(answer, 403, "ERR_FORBIDDEN")
    for name in ("localhost:80", "127.0.0.1", "[::1]:8000"):
        assert httpx.get(f"{gateway.url}/agencies", headers={"Host": name}).status_code == 200


def test_an_open_gateway_takes_no_changes_from_pages_of_other_sites(gateway: Server, http: httpx.Client) -> None:
    before = http.get("/agencies").json()
    for site in ("cross-site", "same-site"):
        answer = http.post("/agencies", headers={"Sec-Fetch-Site": site, "Origin": "https://evil.example"})
        assert_problem(answer, 403, "ERR_FORBIDDEN")
    assert http.get("/agencies").json() == before


@pytest.mark.parametrize("kind", [None, "text/plain;charset=UTF-8", "application/x-www-form-urlencoded"])
def test_what_a_browser_sends_without_asking_first_is_judged_by_the_page_it_comes_from(
    gateway: Server, http: httpx.Client, kind: str | None
) -> None:
    """Browsers say `Sec-Fetch-Site` to https and localhost only, and `Origin` always."""
    before = http.get("/agencies").json()
    headers = {"Origin": "https://evil.example", **({} if kind is None else {"Content-Type": kind})}
    assert_problem(http.post("/agencies", content=b'{"name": "x"}', headers=headers), 403, "ERR_FORBIDDEN")
    assert http.get("/agencies").json() == before
    headers["Origin"] = gateway.url
    assert http.post("/agencies", headers=headers).status_code == 201


@pytest.mark.parametrize("site", [None, "none", "same-origin", "same-site", "cross-site"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_whatever_changes_something_is_judged_by_the_page_it_comes_from(
    gateway: Server, http: httpx.Client, agency: str, method: str, site: str | None
) -> None:
    """Also where a request says something else of itself, and whatever it carries."""
    said = {} if site is None else {"Sec-Fetch-Site": site}
    for origin in ("https://evil.example", "null", f"{gateway.url}.evil.example"):
        for more in ({}, {"X-SECRET": "any"}, {"X-Forwarded-Host": "evil.example"}):
            answer = http.request(method, f"/agency/{agency}", json={}, headers={"Origin": origin, **said, **more})
            assert_problem(answer, 403, "ERR_FORBIDDEN")
    assert http.get(f"/agency/{agency}").status_code == 200


def test_a_page_under_the_name_that_a_trusted_proxy_was_asked_for_is_our_own(limited: Server) -> None:
    shown = {"Origin": "https://Desk.example", "Sec-Fetch-Site": "same-origin"}
    with limited.client() as proxy:
        assert_problem(proxy.post("/agencies", headers=shown), 403, "ERR_FORBIDDEN")
        assert proxy.post("/agencies", headers={**shown, "X-Forwarded-Host": "desk.example"}).status_code == 201


def test_with_a_secret_what_shows_a_credential_has_to_come_from_pages_of_this_server(
    owner: httpx.Client, guarded: Server
) -> None:
    """A proxy that signs people in adds their credential to what any page has them send."""
    for said in ({}, *({"Sec-Fetch-Site": site} for site in ("cross-site", "same-site", "same-origin", "none"))):
        answer = owner.post("/agencies", headers={"Origin": "https://evil.example", **said})
        assert_problem(answer, 403, "ERR_FORBIDDEN")
    assert owner.post("/agencies", headers={"Origin": guarded.url}).status_code == 201
    assert owner.post("/agencies").status_code == 201, "programs say no origin"
    with guarded.client() as stranger:
        answer = stranger.post("/agencies", headers={"Origin": "https://evil.example"})
        assert_problem(answer, 401, "ERR_UNAUTHORIZED")


async def test_an_open_gateway_takes_no_sockets_of_pages_of_other_sites(
    gateway: Server, http: httpx.Client, agency: str
) -> None:
    thread = create(http, agency)
    path = f"/agency/{agency}/agent/{thread}/ws?after=0"
    assert (await anext(socket_events(gateway, path, Origin=gateway.url)))["seq"] == 1
    with pytest.raises(InvalidStatus) as caught:
        await anext(socket_events(gateway, path, Origin="https://evil.example"))
    assert caught.value.response.status_code == 403


def test_other_sites_are_let_in_only_if_named(gateway: Server, limited: Server) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    for server, origin, allowed in (
        (gateway, "https://shop.example", None),
        (limited, "https://shop.example", "https://shop.example"),
        (limited, "https://evil.example", None),
    ):
        answer = httpx.options(f"{server.url}/agencies", headers={"Origin": origin, **asked})
        assert answer.headers.get("access-control-allow-origin") == allowed
    posted = httpx.post(
        f"{limited.url}/agencies", headers={"Origin": "https://shop.example", "Sec-Fetch-Site": "cross-site"}
    )
    assert posted.status_code == 201


# How much.


def test_requests_that_are_too_large_are_refused(limited: Server) -> None:
    fits = json.dumps({"name": "x" * 100}).encode()
    large = json.dumps({"name": "x" * 3_000}).encode()
    headers = {"Content-Type": "application/json"}
    with limited.client(**headers) as client:
        assert client.post("/agencies", content=fits).status_code == 201
        assert_problem(client.post("/agencies", content=large), 413, "ERR_TOO_LARGE")

        def unannounced() -> Iterator[bytes]:
            yield from (large[i : i + 100] for i in range(0, len(large), 100))

        assert_problem(client.post("/agencies", content=unannounced()), 413, "ERR_TOO_LARGE")
        assert client.get("/agencies").status_code == 200


def test_who_asks_too_often_is_told_to_wait(serve: Serve, gateway: Server) -> None:
    slow = serve(AGENCY_RATE="0.01", AGENCY_BURST="5")
    answers = [httpx.get(f"{slow.url}/agencies") for _ in range(8)]
    refused = [answer for answer in answers if answer.status_code != 200]
    assert refused
    for answer in refused:
        assert_problem(answer, 429, "ERR_RATE_LIMITED")
        assert int(answer.headers["retry-after"]) >= 1


async def test_there_are_only_so_many_live_connections(limited: Server, http: httpx.Client, agency: str) -> None:
    thread = create(http, agency)
    path = f"{limited.ws}/agency/{agency}/agent/{thread}/ws"
    async with connect(path, proxy=None), connect(path, proxy=None) as second:
        with pytest.raises(InvalidStatus) as caught:
            await connect(path, proxy=None)
        assert caught.value.response.status_code == 429
        await second.close()

        async def let_in() -> bool:
            with suppress(InvalidStatus):
                await (await connect(path, proxy=None)).close()
                return True
            return False

        await eventually(let_in)  # the place of the client that left is free


async def test_no_agency_has_all_live_connections(limited: Server, http: httpx.Client) -> None:
    greedy, other = (http.post("/agencies").json()["id"] for _ in range(2))
    with_key = {each: {"X-SECRET": key(http, each, "viewer")["key"]} for each in (greedy, other)}

    def feed(agency: str) -> connect:
        address = f"{limited.ws}/agency/{agency}/ws"
        return connect(address, additional_headers=with_key[agency], proxy=None)

    async def is_open() -> bool:
        with suppress(InvalidStatus):
            await stack.enter_async_context(feed(greedy))
            return True
        return False

    async with AsyncExitStack() as stack:
        await eventually(is_open)  # others may have just left
        with pytest.raises(InvalidStatus) as caught:
            await feed(greedy)
        assert caught.value.response.status_code == 429
        await stack.enter_async_context(feed(other))


async def test_a_socket_of_a_revoked_key_is_closed(guarded: Server, owner: httpx.Client) -> None:
    agency = owner.post("/agencies").json()["id"]
    thread = create(owner, agency)
    made = key(owner, agency, "viewer")
    path = f"{guarded.ws}/agency/{agency}/agent/{thread}/ws?after=1"
    async with connect(path, additional_headers={"X-SECRET": made["key"]}, proxy=None) as socket:
        owner.delete(f"/agency/{agency}/keys/{made['id']}")
        with pytest.raises(ConnectionClosed) as caught:
            await asyncio.wait_for(socket.recv(), 30)
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 4401


async def test_a_revoked_key_opens_nothing_by_a_ticket_either(guarded: Server, owner: httpx.Client) -> None:
    agency = owner.post("/agencies").json()["id"]
    made = key(owner, agency, "admin")
    with holding(guarded, made["key"]) as holder:
        tickets = [holder.post("/tickets").json()["ticket"] for _ in range(3)]
    with guarded.client() as stranger:  # a ticket is for live feeds, and for nothing else
        assert_problem(stranger.post("/tickets", params={"ticket": tickets[0]}), 401, "ERR_UNAUTHORIZED")
        assert_problem(stranger.get(f"/agency/{agency}", params={"ticket": tickets[0]}), 401, "ERR_UNAUTHORIZED")
    owner.delete(f"/agency/{agency}/keys/{made['id']}")
    with pytest.raises(InvalidStatus) as caught:
        await anext(socket_events(guarded, f"/agency/{agency}/ws?ticket={tickets[1]}"))
    assert caught.value.response.status_code == 401


async def test_a_busy_socket_of_a_revoked_key_is_closed_too(guarded: Server, owner: httpx.Client) -> None:
    agency = owner.post("/agencies").json()["id"]
    thread = create(owner, agency, say("on and on", words=300, delay=30))
    made = key(owner, agency, "viewer")
    path = f"{guarded.ws}/agency/{agency}/agent/{thread}/ws?after=0"
    async with connect(path, additional_headers={"X-SECRET": made["key"]}, proxy=None) as socket:
        await socket.recv()
        owner.delete(f"/agency/{agency}/keys/{made['id']}")
        with pytest.raises(ConnectionClosed) as caught:
            async with asyncio.timeout(20):
                while True:
                    await socket.recv()
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 4401
    owner.delete(f"/agency/{agency}")


def test_where_a_request_came_from_is_not_for_clients_to_say(gateway: Server, http: httpx.Client, agency: str) -> None:
    body = {"agentType": "clerk"}
    made = http.post(f"/agency/{agency}/agents", json=body, headers={"X-Forwarded-For": "192.0.2.9"}).json()
    assert made["request"]["ip"] == "127.0.0.1"
