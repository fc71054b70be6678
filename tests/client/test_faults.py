"""Both clients against a server that does everything wrong that a network can do."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import httpx
import pytest

from agency import Event, EventType
from agency.backoff import Backoff
from agency.client import Client, asynchronous, exchange, following, sync
from agency.errors import AgencyError, InvalidInput, NotFound, RateLimited, Unauthorized, Unavailable
from agency.events import model_delta
from tests.support.both_clients import FACES, Face, call, collect
from tests.support.scripted_http import Asked, Play, answer, nothing, problem, rubbish, scripted, stream, until_gone
from tests.support.waiting import eventually

ACCEPTED = answer(202, {"runId": "t.1", "status": "running"})
BUSY = problem(503, "ERR_UNAVAILABLE")

both = pytest.mark.parametrize("face", FACES)


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (exchange, following):
        monkeypatch.setattr(module, "RETRY_DELAYS", Backoff(first=0.005, longest=5.0))


def sent(event: Event) -> bytes:
    number = b"" if event.seq is None else f"id: {event.seq}\n".encode()
    return number + f"data: {event.model_dump_json()}\n\n".encode()


def stored(seq: int, kind: EventType = EventType.RUN_TICK) -> Event:
    return Event(thread_id="t", seq=seq, ts="now", type=kind, data={"runId": "t.1", "text": "ü" * (seq % 7)})


def told(after: int, last: int) -> bytes:
    """What a gateway sends after a seq: events, and between some of them a reply as it is streamed."""
    pieces = []
    for seq in range(after + 1, last + 1):
        if seq % 5 == 0:
            pieces += [model_delta("t", "t.1", f"word{i} ", 6 * i, 0) for i in range(4)]
            pieces.append(stored(seq, EventType.MODEL_COMPLETED))
        else:
            pieces.append(stored(seq))
    return b"".join(map(sent, pieces))


def seqs(events: list[Event]) -> list[int]:
    return [event.seq for event in events if event.seq is not None]


# Events.


@both
async def test_a_hundred_cuts_at_random_places_lose_and_repeat_no_event(face: Face) -> None:
    chance, last = random.Random(7), 400

    def cut(asked: Asked) -> Iterator[bytes]:
        whole = told(asked.after, last)
        if len(server.asked) <= 100:
            whole = whole[: chance.randrange(1_500)]
        place = chance.randrange(len(whole) + 1)
        yield whole[:place]
        yield whole[place:]

    with scripted(stream(cut)) as server:
        got = await collect(face, server.url, lambda got: got[-1].seq == last)
    assert len(server.asked) > 100
    assert seqs(got) == list(range(1, last + 1))
    text = ""
    for event in got:
        if event.seq is None:
            assert event.data["offset"] == len(text)
            text += str(event.data["delta"])
        elif event.type == EventType.MODEL_COMPLETED:
            assert text == "word0 word1 word2 word3 "
            text = ""


@both
async def test_whatever_goes_wrong_in_between_the_events_go_on(face: Face) -> None:
    def some(asked: Asked) -> Iterator[bytes]:
        yield told(asked.after, asked.after + 3)

    def garbled(asked: Asked) -> Iterator[bytes]:
        yield b"data: {no json at all\n\n"

    page = answer(200, b"<html>the proxy says hello", "text/html")
    troubles: list[Play] = [nothing, BUSY, rubbish, stream(garbled), page, problem(500, "ERR_INTERNAL")]
    plays = [play for trouble in troubles for play in (stream(some), trouble)]
    with scripted(*plays, stream(some)) as server:
        got = await collect(face, server.url, lambda got: got[-1].seq == 21)
    assert seqs(got) == list(range(1, 22))
    assert len(server.asked) == 2 * len(troubles) + 1


@both
async def test_a_connection_without_a_sign_of_life_is_given_up(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sync, asynchronous):
        monkeypatch.setattr(module, "FOLLOWING", httpx.Timeout(0.2))

    def stalled(asked: Asked, connection: socket.socket) -> None:
        stream(lambda asked: iter([told(0, 2), b"data: half an ev"]))(asked, connection)
        until_gone(connection)

    with scripted(stalled, stream(lambda asked: iter([told(asked.after, 4)]))) as server:
        got = await collect(face, server.url, lambda got: got[-1].seq == 4)
    assert seqs(got) == [1, 2, 3, 4]
    assert [asked.after for asked in server.asked] == [0, 2]


@both
async def test_a_heartbeat_keeps_a_quiet_connection(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sync, asynchronous):
        monkeypatch.setattr(module, "FOLLOWING", httpx.Timeout(0.5))

    def quiet(asked: Asked, connection: socket.socket) -> None:
        stream(lambda asked: iter([told(0, 1)]))(asked, connection)
        for _ in range(8):
            connection.settimeout(0.1)
            with pytest.raises(TimeoutError):
                connection.recv(1)  # nobody hangs up
            connection.sendall(b": the line is alive\n\n")
        connection.sendall(told(1, 2))

    with scripted(quiet) as server:
        got = await collect(face, server.url, lambda got: len(got) == 2)
    assert seqs(got) == [1, 2]
    assert len(server.asked) == 1


@both
async def test_closing_the_iterator_closes_the_connection(face: Face) -> None:
    def endless(asked: Asked, connection: socket.socket) -> None:
        stream(lambda asked: iter([told(0, 1)]))(asked, connection)
        until_gone(connection)

    with scripted(endless) as server:
        await collect(face, server.url, lambda got: True)
        await eventually(lambda: server.open == 0, 5)


@both
async def test_a_thread_that_is_deleted_and_a_key_that_is_revoked_end_the_events(face: Face) -> None:
    beginning = stream(lambda asked: iter([told(0, 1)]))
    gone = problem(404, "ERR_NOT_FOUND", "it is gone")
    with scripted(beginning, gone) as server, pytest.raises(NotFound, match="it is gone"):
        await collect(face, server.url, lambda got: False)
    with scripted(beginning, problem(401, "ERR_UNAUTHORIZED")) as server, pytest.raises(Unauthorized):
        await collect(face, server.url, lambda got: False)


@both
async def test_when_nobody_is_there_patience_ends_and_says_how_to_start_a_server(face: Face) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(Unavailable, match="agency serve"):
            await collect(face, url, lambda got: False, patience=0.3)


# Requests.


@both
async def test_a_message_whose_answer_is_lost_is_sent_again_with_the_same_key(face: Face) -> None:
    with scripted(nothing, BUSY, rubbish, answer(502, b"<html>"), ACCEPTED) as server:
        accepted = await call(face, server.url, "invoke", "Where is order 7?")
    assert accepted.run_id == "t.1"
    assert len(server.asked) == 5
    assert len({asked.json["idempotencyKey"] for asked in server.asked}) == 1


@both
async def test_too_many_requests_wait_for_as_long_as_they_are_told(face: Face) -> None:
    with scripted(problem(429, "ERR_RATE_LIMITED", retry_after="0"), ACCEPTED) as server:
        await call(face, server.url, "invoke", "hello")
    assert len(server.asked) == 2
    with scripted(problem(429, "ERR_RATE_LIMITED", retry_after="3600")) as server, pytest.raises(RateLimited):
        await call(face, server.url, "invoke", "hello")


@both
async def test_pausing_again_after_a_lost_answer_is_no_error(face: Face) -> None:
    with scripted(nothing, problem(409, "ERR_WRONG_STATE")) as server:
        await call(face, server.url, "pause")
    assert len(server.asked) == 2


@both
async def test_waiting_goes_on_over_many_requests(face: Face) -> None:
    meta = {"threadId": "t", "agentType": "clerk", "turns": 1, "tokensUsed": {}, "durationMs": 5}
    envelope = {"runId": "t.1", "data": None, "timestamp": 1}
    running = answer(200, {**envelope, "status": "running", "meta": meta})
    for_child = answer(200, {**envelope, "status": "paused", "meta": {**meta, "pauseReason": "subagent"}})
    ended = answer(200, {**envelope, "status": "completed", "meta": meta})
    with scripted(running, for_child, nothing, ended) as server:
        run = await call(face, server.url, "wait")
    assert (run.status, len(server.asked)) == ("completed", 4)
    with scripted(running) as server:
        assert (await call(face, server.url, "wait", 0)).status == "running"


@both
async def test_the_secret_is_shown_and_is_in_no_error(face: Face) -> None:
    secret = "agk_bakery.key_1.verysecret"
    with scripted(answer(200, b"<html>")) as server, pytest.raises(AgencyError) as caught:
        await call(face, server.url, "info", secret=secret)
    assert server.asked[0].headers["authorization"] == f"Bearer {secret}"
    assert "verysecret" not in f"{caught.value!r} {caught.value}"


def test_address_and_secret_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENCY_SECRET", "from the environment")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")  # which nobody needs to reach this very machine
    info = {"id": "a", "name": "bakery", "createdAt": "now"}
    with scripted(answer(200, info)) as server:
        monkeypatch.setenv("AGENCY_URL", f"{server.url}/behind/a/proxy/")
        with Client() as client:
            assert client.agency("a").info().name == "bakery"
    assert server.asked[0].path == "/behind/a/proxy/agency/a"
    assert server.asked[0].headers["authorization"] == "Bearer from the environment"


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host", "http://", "http://[::1", "nonsense"])
def test_an_address_that_is_none_is_refused_with_one_that_is(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"address"):
        Client(url)


def test_a_secret_that_no_header_can_hold_is_refused_without_being_told() -> None:
    with pytest.raises(InvalidInput, match="ASCII") as caught:
        Client(secret="pässword\nX-Other: 1")
    assert "pässword" not in str(caught.value)


def test_a_list_is_fetched_page_by_page_as_it_is_read() -> None:
    def page(asked: Asked, connection: socket.socket) -> None:
        query = httpx.URL(asked.path).params
        after = int(query["after"] or 0)
        agencies = [{"id": f"{n:03}", "name": "x", "createdAt": "now"} for n in range(after + 1, after + 3)]
        answer(200, {"agencies": agencies, "next": f"{after + 2:03}" if after < 4 else None})(asked, connection)

    with scripted(page) as server, Client(server.url) as client:
        found = client.agencies()
        assert "/agencies: iterate" in repr(found)
        listing = iter(found)
        assert next(listing).summary.name == "x"
        assert len(server.asked) == 1
        assert [each.id for each in listing] == ["002", "003", "004", "005", "006"]
        assert client.agency("002").id == "002"
    assert [httpx.URL(asked.path).params["after"] for asked in server.asked] == ["", "002", "004"]
