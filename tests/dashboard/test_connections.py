"""Clients that connect and say nothing, or say it slowly: they keep no other client out, and the gateway alive."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.support.gateway_requests import Json, assert_problem, create
from tests.support.gateways import Server
from tests.support.raw_sockets import opened, told
from tests.support.waiting import eventually, eventually_sync

PARTS = (
    b"",
    b"GET /agencies HTTP/1.1\r\nHost: loc",
    b"POST /agencies HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{",
)
"""What slow clients have said so far: nothing, a part of a head, a part of a body."""


class FewFiles(Server):
    files = 230  # of which Ray has some fifty


@pytest.fixture
def few(gateway: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A gateway that may have few files open."""
    server = FewFiles(gateway.settings, tmp_path_factory.mktemp("few") / "log")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def limited(gateway: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A gateway with four connections, to clients that take less than a second for anything."""
    log = tmp_path_factory.mktemp("limited") / "log"
    server = Server(gateway.settings, log, AGENCY_CONNECTIONS="4", AGENCY_SLOW="1")
    yield server
    server.stop()


def many_told(server: Server) -> list[bytes]:
    """What forty clients at once are told that say nothing."""
    with ExitStack() as all_of_them:
        clients = [all_of_them.enter_context(opened(server)) for _ in range(40)]
        return [told(each) for each in clients]


def figure(http: httpx.Client, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", http.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def key_of(http: httpx.Client, agency: str) -> Json:
    return http.post(f"/agency/{agency}/keys", json={"name": "k", "role": "operator"}).json()["key"]


def test_more_slow_clients_than_there_are_descriptors_keep_no_other_client_out(
    few: Server, http: httpx.Client, agency: str
) -> None:
    key = key_of(http, agency)
    with ExitStack() as slow:
        for n in range(2 * FewFiles.files):
            client = slow.enter_context(opened(few))
            with suppress(ConnectionError):  # others may need its place already
                client.sendall(PARTS[n % 3])
            if n % 50 == 0:  # meanwhile, on a connection of its own
                with few.client(Authorization=f"Bearer {key}") as tenant:
                    assert create(tenant, agency)
        with few.client() as other:
            assert other.get("/healthz").status_code == 200
            assert figure(other, "agency_connections_open") < FewFiles.files
            assert figure(other, 'agency_connections_closed_total{why="room"}') > 0
        assert few.process.poll() is None
    with few.client() as after:
        eventually_sync(lambda: figure(after, "agency_connections_open") < 5)
    log = few.log.read_text()
    assert few.process.poll() is None
    assert ("Too many open files" in log, "was stopped" in log, "starts again" in log) == (False, False, False)
    assert log.count("starting …") == 1, "it is the same gateway"


async def test_if_all_are_at_work_the_next_is_told_so(limited: Server, http: httpx.Client, agency: str) -> None:
    thread = create(http, agency)
    path = f"{limited.ws}/agency/{agency}/agent/{thread}/ws"
    async with connect(path, proxy=None), connect(path, proxy=None), connect(path, proxy=None):
        async with connect(path, proxy=None):
            async with httpx.AsyncClient() as client:
                refused = await client.get(f"{limited.url}/healthz")
            assert_problem(refused, 503, "ERR_UNAVAILABLE")
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.headers["connection"] == "close"
            with pytest.raises(InvalidStatus) as caught:
                await connect(path, proxy=None)
            assert caught.value.response.status_code == 503
            heard = await asyncio.to_thread(many_told, limited)
            assert len([each for each in heard if each.startswith(b"HTTP/1.1 503 ")]) > 10

        async def is_let_in() -> bool:
            async with httpx.AsyncClient() as client:
                return (await client.get(f"{limited.url}/healthz")).status_code == 200

        await eventually(is_let_in)  # a place is free


def test_who_says_too_little_is_sent_away_and_who_comes_back_is_not(limited: Server) -> None:
    with limited.client() as patient:
        assert patient.get("/healthz").status_code == 200
        (line,) = list(patient._transport._pool.connections)  # type: ignore[attr-defined]
        with opened(limited) as silent, opened(limited, PARTS[1]) as head, opened(limited, PARTS[2]) as body:
            assert told(silent) == b""
            for each in (head, body):
                answer = told(each)
                assert answer.startswith(b"HTTP/1.1 408 ")
                assert (b"application/problem+json" in answer, b"ERR_SLOW" in answer) == (True, True)
        assert patient.get("/healthz").status_code == 200
        assert patient._transport._pool.connections == [line]  # type: ignore[attr-defined]


def test_a_body_that_trickles_is_not_waited_for(limited: Server) -> None:
    with opened(limited, PARTS[2]) as client:
        client.settimeout(0.2)
        said = b""

        def is_sent_away() -> bool:
            nonlocal said
            with suppress(TimeoutError, OSError):
                client.sendall(b" ")
                said += client.recv(4_096)
            return b"408" in said

        eventually_sync(is_sent_away)


def test_a_body_that_begins_fast_and_stops_is_not_waited_for(limited: Server) -> None:
    head = PARTS[2].replace(b"Content-Length: 50", b"Content-Length: 1000000")
    with opened(limited, head + b" " * 500_000) as client:
        assert told(client).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_comes_steadily_is_waited_for(limited: Server) -> None:
    body = b" " * 200_000 + b'{"name": "bakery"}'
    head = PARTS[2].replace(b"Content-Length: 50\r\n\r\n{", b"Content-Length: %d\r\n\r\n" % len(body))

    def is_heard() -> bool:  # where the machine is too busy to send steadily, once more
        with suppress(OSError), opened(limited, head.replace(b"Host", b"Connection: close\r\nHost")) as client:
            for at in range(0, len(body), 10_000):
                client.sendall(body[at : at + 10_000])
                time.sleep(0.15)  # all of it takes three times as long as a client may be silent
            return told(client).startswith(b"HTTP/1.1 201 ")
        return False

    eventually_sync(is_heard)


def test_what_is_left_of_a_body_after_its_answer_is_not_waited_for(limited: Server) -> None:
    head = b"POST /none HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n"
    with opened(limited, head) as client:
        said = b""

        def is_closed() -> bool:
            nonlocal said
            try:
                client.sendall(b" " * 10_000)
                return False
            except OSError:
                return True

        client.settimeout(1)
        eventually_sync(is_closed)
    with limited.client() as other:
        assert figure(other, 'agency_connections_closed_total{why="slow"}') > 0


def test_who_does_not_take_the_answers_is_sent_away(limited: Server, http: httpx.Client) -> None:
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        host, _, port = limited.url.removeprefix("http://").rpartition(":")
        client.connect((host, int(port)))
        client.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
        with limited.client() as other:
            eventually_sync(lambda: figure(other, "agency_connections_open") == 2)
            eventually_sync(lambda: figure(other, "agency_connections_open") == 1)


def test_who_does_not_take_the_answers_makes_room_for_those_who_do(
    gateway: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = tmp_path_factory.mktemp("patient") / "log"
    server = Server(gateway.settings, log, AGENCY_CONNECTIONS="3", AGENCY_SLOW="3600")
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    try:
        with ExitStack() as all_of_them:
            for _ in range(3):
                client = all_of_them.enter_context(socket.socket())
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                client.connect((host, int(port)))
                client.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
                assert client.recv(1) == b"H"  # it is at work

            def is_served() -> bool:
                with suppress(httpx.TransportError):
                    return httpx.get(f"{server.url}/healthz", timeout=5).status_code == 200
                return False

            eventually_sync(is_served)
    finally:
        server.stop()


def test_the_one_that_has_waited_longest_makes_room(limited: Server) -> None:
    with ExitStack() as all_of_them:
        kept = [all_of_them.enter_context(limited.client()) for _ in range(4)]
        for each in kept:
            assert each.get("/healthz").status_code == 200
        for _ in range(3):
            assert httpx.get(f"{limited.url}/healthz").status_code == 200
        assert kept[-1].get("/healthz").status_code == 200
