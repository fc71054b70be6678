"""Live events over real sockets: from any number on, no gap and no repeat, whoever is cut off, slow or many."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.gateway_requests import Json, create, finished, message, socket_events, stored
from tests.support.gateways import Server
from tests.support.scripted_system import calls, noting, say, task
from tests.support.waiting import eventually

WORK = [say(f"step {n}", words=5, delay=0.2) for n in range(4)]


@pytest.fixture(scope="module")
def strict(gateway: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A gateway that soon sends away who does not read, and often tells that the line is alive."""
    server = Server(gateway.settings, tmp_path_factory.mktemp("strict") / "log", AGENCY_SLOW="0.5", AGENCY_BEAT="0.1")
    yield server
    server.stop()


def path_of(agency: str, thread: str, after: int | str = 0) -> str:
    return f"/agency/{agency}/agent/{thread}/ws?after={after}"


def is_end(event: Json) -> bool:
    return bool(event["type"] in ("agent.completed", "agent.error", "run.canceled"))


async def until_the_end(server: Server, path: str) -> list[Json]:
    events: list[Json] = []
    async for event in socket_events(server, path):
        events.append(event)
        if is_end(event):
            break
    return events


async def test_a_socket_gets_every_event_and_the_text_as_it_streams(
    gateway: Server, http: httpx.Client, agency: str
) -> None:
    thread = create(http, agency, say("all of it", words=10, delay=0.5))
    events = await until_the_end(gateway, path_of(agency, thread))
    assert [event for event in events if event["seq"] is not None] == stored(http, agency, thread)
    deltas = [event["data"] for event in events if event["type"] == "model.delta"]
    assert "".join(delta["delta"] for delta in deltas) == "".join(f"word{n} " for n in range(10))
    assert len(deltas) > 1
    order = [event["type"] for event in events]
    assert order.index("model.started") < order.index("model.delta") < order.index("model.completed")


@pytest.mark.parametrize("after", [0, 1, 5, 1_000])
async def test_a_socket_begins_after_any_seq(gateway: Server, http: httpx.Client, agency: str, after: int) -> None:
    thread = create(http, agency, say("done"))
    finished(http, agency, thread)
    every = stored(http, agency, thread)
    async with connect(gateway.ws + path_of(agency, thread, after), proxy=None) as opened:
        for expected in every[after:]:
            assert json.loads(await opened.recv()) == expected
        http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": message(say("more"))})
        if after < 1_000:
            assert json.loads(await opened.recv())["seq"] == len(every) + 1
        else:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(opened.recv(), 0.5)


@pytest.mark.parametrize("after", ["-1", "x", "1.5", "²", str(2**63), "9" * 5_000])
async def test_a_socket_that_begins_nowhere_is_refused(
    gateway: Server, http: httpx.Client, agency: str, after: str
) -> None:
    thread = create(http, agency)
    for path in (path_of(agency, thread, after), f"/agency/{agency}/ws?after={after}"):
        with pytest.raises(Exception, match="400"):
            await anext(socket_events(gateway, path))


async def test_a_client_that_is_cut_off_a_hundred_times_ends_with_exactly_the_stored_events(
    gateway: Server, http: httpx.Client, agency: str, tmp_path: Path
) -> None:
    (tmp_path / "ledger").touch()
    steps = [calls(noting(tmp_path / "ledger", f"{n}", 0.05), delay=0.05) for n in range(40)]
    thread = create(http, agency, *steps, say("done", words=20, delay=1.0))
    seen: list[Json] = []
    cut = 0
    while cut < 100 or not (seen and is_end(seen[-1])):
        after = seen[-1]["seq"] if seen else 0
        opened = await connect(gateway.ws + path_of(agency, thread, after), proxy=None)
        patience = random.uniform(0, 0.12)
        try:
            async with asyncio.timeout(patience):
                while True:
                    event = json.loads(await opened.recv())
                    if event["seq"] is not None:
                        seen.append(event)
        except TimeoutError:
            opened.transport.abort()
            cut += 1
    assert seen == stored(http, agency, thread)
    assert finished(http, agency, thread)["data"] == "done"


async def test_server_sent_events_begin_after_the_last_event_id(
    gateway: Server, http: httpx.Client, agency: str
) -> None:
    thread = create(http, agency, say("done", words=3, delay=0.2))
    finished(http, agency, thread)
    every = stored(http, agency, thread)
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "3"}
    async with (
        httpx.AsyncClient(base_url=gateway.url) as client,
        client.stream("GET", f"/agency/{agency}/agent/{thread}/events?after=1", headers=headers) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.aiter_lines()
        got: list[tuple[str, Json]] = []
        number = ""
        async for line in lines:
            if line.startswith("id: "):
                number = line.removeprefix("id: ")
            elif line.startswith("data: "):
                got.append((number, json.loads(line.removeprefix("data: "))))
                if is_end(got[-1][1]):
                    break
    assert got == [(str(event["seq"]), event) for event in every[3:]]


async def test_a_client_that_hears_nothing_is_told_that_the_line_is_alive(
    strict: Server, http: httpx.Client, agency: str
) -> None:
    thread = create(http, agency)
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "1"}
    async with (
        httpx.AsyncClient(base_url=strict.url) as client,
        client.stream("GET", f"/agency/{agency}/agent/{thread}/events", headers=headers) as answer,
    ):
        comments = [line async for line, _ in _first(answer.aiter_lines(), 6) if line.startswith(":")]
    assert len(comments) >= 2


async def _first(lines: Json, count: int) -> Json:
    async for line in lines:
        yield line, count
        count -= 1
        if not count:
            return


def long_thread(http: httpx.Client, agency: str) -> str:
    """A thread with more in its events than any buffer between a gateway and its client holds."""
    thread = create(http, agency)
    for n in range(3):
        http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": message(say(f"{n}" * 800_000))})
        finished(http, agency, thread)
    return thread


async def test_a_client_that_does_not_read_is_sent_away_and_misses_nothing_when_it_returns(
    strict: Server, http: httpx.Client, agency: str
) -> None:
    thread = long_thread(http, agency)
    host, port = strict.url.removeprefix("http://").split(":")
    narrow = socket.create_connection((host, int(port)))
    narrow.setsockopt(
        socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768
    )  # with less, TCP itself takes 20 s to tell of the end
    narrow.setblocking(False)
    opened = await connect(strict.ws + path_of(agency, thread), sock=narrow, proxy=None, max_queue=1, max_size=None)
    got: list[Json] = [json.loads(await opened.recv())]
    await eventually(lambda: "too slow" in strict.log.read_text())  # not reading is the point
    with pytest.raises(ConnectionClosed):
        while True:
            got.append(json.loads(await opened.recv()))
    every = stored(http, agency, thread)
    assert got == every[: len(got)]
    assert len(got) < len(every)
    async with connect(strict.ws + path_of(agency, thread, len(got)), proxy=None, max_size=None) as again:
        while len(got) < len(every):
            got.append(json.loads(await again.recv()))
    assert got == every


async def test_one_gateway_serves_a_thousand_sockets(gateway: Server, http: httpx.Client, agency: str) -> None:
    threads = [create(http, agency) for _ in range(10)]
    opened = []
    try:
        for n in range(0, 1_000, 50):
            paths = [gateway.ws + path_of(agency, threads[i % 10]) for i in range(n, n + 50)]
            opened += await asyncio.gather(*(connect(path, proxy=None, open_timeout=60) for path in paths))
        for thread in threads:
            lines = message(say("done", words=5, delay=1.0))
            http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": lines})

        async def follow(one: Json) -> list[Json]:
            events: list[Json] = []
            while not (events and is_end(events[-1])):
                events.append(json.loads(await one.recv()))
            return [event for event in events if event["seq"] is not None]

        async with asyncio.timeout(90):
            seen = await asyncio.gather(*(follow(one) for one in opened))
    finally:
        await asyncio.gather(*(one.close() for one in opened))
    expected = {thread: stored(http, agency, thread) for thread in threads}
    assert len(seen) == 1_000
    for n, events in enumerate(seen):
        assert events == expected[threads[n % 10]]


async def test_a_deleted_thread_closes_its_sockets(gateway: Server, http: httpx.Client, agency: str) -> None:
    thread = create(http, agency)
    async with connect(gateway.ws + path_of(agency, thread, 1), proxy=None) as opened:
        http.delete(f"/agency/{agency}/agent/{thread}")
        with pytest.raises(ConnectionClosed) as caught:
            await asyncio.wait_for(opened.recv(), 20)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 4404


async def test_a_stream_that_is_not_read_ends_and_gives_its_place_back(
    strict: Server, http: httpx.Client, agency: str
) -> None:
    thread = long_thread(http, agency)
    host, port = strict.url.removeprefix("http://").split(":")
    with socket.socket() as narrow:
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        narrow.connect((host, int(port)))
        lines = [f"GET /agency/{agency}/agent/{thread}/events HTTP/1.1", f"Host: {host}", "Accept: text/event-stream"]
        narrow.sendall("\r\n".join([*lines, "", ""]).encode())
        assert narrow.recv(15) == b"HTTP/1.1 200 OK"
        with strict.client() as client:
            await eventually(lambda: "agency_feeds_open 0.0" in client.get("/metrics").text)


async def test_there_is_no_socket_elsewhere(gateway: Server) -> None:
    for path in ("/ws", "/agency/x/nothing/ws"):
        with pytest.raises(InvalidStatus) as caught:
            await anext(socket_events(gateway, path))
        assert caught.value.response.status_code == 404
        assert json.loads(caught.value.response.body)["code"] == "ERR_NOT_FOUND"


# All of an agency's threads.


async def test_an_agencys_socket_gets_the_events_of_all_its_threads_those_to_come_too(
    gateway: Server, http: httpx.Client, agency: str
) -> None:
    before = create(http, agency, say("before"))
    finished(http, agency, before)
    other = http.post("/agencies").json()["id"]
    create(http, other, say("somebody else's"))
    got: dict[str, list[Json]] = defaultdict(list)
    cursors: list[int] = []
    ends = 0
    async for event in socket_events(gateway, f"/agency/{agency}/ws?after=0"):
        if not cursors:
            parent = create(http, agency, calls(task(say("one")), task(say("two"))), say("both"))
        cursors.append(event.pop("cursor"))
        got[event["threadId"]].append(event)
        ends += is_end(event)
        if ends == 4:
            break
    assert cursors == list(range(1, len(cursors) + 1))
    assert {before, parent} < set(got)
    assert len(got) == 4
    for thread, events in got.items():
        assert events == stored(http, agency, thread)


async def test_an_agencys_events_can_be_had_in_pages_and_from_any_cursor(
    gateway: Server, http: httpx.Client, agency: str
) -> None:
    for thread in [create(http, agency, say(f"{n}")) for n in range(3)]:
        finished(http, agency, thread)
    expected = 3 * len(stored(http, agency, thread))
    paged: list[Json] = []
    while len(paged) < expected:
        after = paged[-1]["cursor"] if paged else 0
        page = http.get(f"/agency/{agency}/events", params={"after": after, "limit": 5}).json()
        assert len(page["events"]) <= 5
        paged += page["events"]
    assert [event["cursor"] for event in paged] == list(range(1, expected + 1))
    async with connect(f"{gateway.ws}/agency/{agency}/ws?after=10", proxy=None) as opened:
        for event in paged[10:]:
            assert json.loads(await opened.recv()) == event
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "20"}
    async with (
        httpx.AsyncClient(base_url=gateway.url) as client,
        client.stream("GET", f"/agency/{agency}/events", headers=headers) as answer,
    ):
        ids = [line async for line, _ in _first(answer.aiter_lines(), 8) if line.startswith("id: ")]
    assert ids[:2] == ["id: 21", "id: 22"]


async def test_an_agencys_socket_can_begin_now(gateway: Server, http: httpx.Client, agency: str) -> None:
    finished(http, agency, create(http, agency, say("before")))
    async with connect(f"{gateway.ws}/agency/{agency}/ws?after=now", proxy=None) as opened:
        thread = create(http, agency, say("after"))
        first = json.loads(await opened.recv())
        assert (first["threadId"], first["seq"]) == (thread, 1)
