"""Following events without any network: connections are lists of bytes, cut wherever hypothesis likes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agency import Event, EventType
from agency.client import Client
from agency.client.exchange import Answer
from agency.client.following import Broken, Following
from agency.client.sse import Parser
from agency.errors import AgencyError, NotFound, Unauthorized, Unavailable
from agency.events import model_delta
from tests.support.both_clients import requests_of

URL = "http://127.0.0.1:1"
AGENCY = requests_of(Client(URL).agency("a"))
THREAD = requests_of(Client(URL).agency("a").thread("t"))
OPEN = Answer(200, {"content-type": "text/event-stream; charset=utf-8"}, b"")
TEXT = "Ünder the counter. "


def stored(seq: int, kind: EventType = EventType.RUN_TICK) -> Event:
    return Event(thread_id="t", seq=seq, ts="now", type=kind, data={"runId": "t.1"})


def sent(event: Event) -> bytes:
    return f"data: {event.model_dump_json()}\n\n".encode()


def follow(after: int = 0) -> Following[Event]:
    return Following(THREAD.events(after), URL)


class Gateway:
    """Two turns of a run, as a gateway tells of them to whoever comes back after a seq."""

    kinds = (EventType.MODEL_STARTED, EventType.MODEL_COMPLETED, EventType.RUN_TICK)
    seqs = range(1, 7)

    def tell(self, after: int) -> Iterator[Event]:
        """Text comes before the event that ends it; to whoever comes back in its midst, it is told again at once."""
        for seq in self.seqs[after:]:
            kind = self.kinds[(seq - 1) % 3]
            if kind == EventType.MODEL_COMPLETED:
                cut = len(TEXT) if seq == after + 1 else 7
                for begin, text in ((0, TEXT[:cut]), (cut, TEXT[cut:])):
                    yield model_delta("t", "t.1", text, begin, 0)
            yield stored(seq, kind)


@given(text=st.text(), cuts=st.lists(st.integers(0, 200)), end=st.sampled_from(["\n", "\r\n", "\r"]))
def test_messages_are_the_same_however_the_bytes_are_cut(text: str, cuts: list[int], end: str) -> None:
    line = text.replace("\r", "").replace("\n", "").encode("utf-8", "replace").decode()
    ended = end.encode()
    whole = ended.join([b": alive", b"", b"id: 1", b"data: " + line.encode(), b"data:two", b"", b"data: unfin"])
    places = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    parser = Parser()
    messages = [m for begin, stop in itertools.pairwise(places) for m in parser.feed(whole[begin:stop])]
    assert messages == ["", f"{line}\ntwo"]


@given(lengths=st.lists(st.integers(1, 400), max_size=60))
def test_connections_may_be_cut_anywhere_and_every_event_comes_once(lengths: list[int]) -> None:
    gateway, following = Gateway(), follow()
    got: list[Event] = []
    for length in [*lengths, 100_000]:
        after = int(following.headers["Last-Event-ID"])
        following.opened(OPEN)
        got += following.feed(b"".join(sent(event) for event in gateway.tell(after))[:length])
    assert [event.seq for event in got if event.seq is not None] == list(gateway.seqs)
    texts = [""]
    for event in got:
        if event.seq is None:
            assert event.data["offset"] == len(texts[-1])
            texts[-1] += str(event.data["delta"])
        elif event.type == EventType.MODEL_COMPLETED:
            texts.append("")
    assert texts == [TEXT, TEXT, ""]


def test_it_begins_after_what_its_reader_has() -> None:
    assert follow(after=7).headers["Last-Event-ID"] == "7"
    following = follow(after=2)
    following.opened(OPEN)
    assert [event.seq for event in following.feed(b"".join(map(sent, [stored(2), stored(3)])))] == [3]


def test_a_reply_that_begins_anew_after_a_crash_is_told_from_one_that_is_repeated() -> None:
    following = follow()
    following.opened(OPEN)

    def deltas(*pieces: tuple[int, str]) -> list[tuple[object, object]]:
        told = b"".join(sent(model_delta("t", "t.1", text, offset, 0)) for offset, text in pieces)
        return [(event.data["offset"], event.data["delta"]) for event in following.feed(told)]

    assert deltas((0, "The dog"), (7, " barks")) == [(0, "The dog"), (7, " barks")]
    assert deltas((0, "The dog barks.")) == [(13, ".")]
    assert deltas((0, "The "), (4, "cat"), (7, " purrs")) == [(4, "cat"), (7, " purrs")]
    assert deltas((0, "A cat")) == [(0, "A cat")]


def test_an_agencys_events_are_followed_by_their_cursor_and_may_begin_now() -> None:
    following = Following(AGENCY.events("now"), URL)
    assert (following.query, "Last-Event-ID" in following.headers) == ({"after": "now"}, False)
    following.opened(OPEN)
    told = stored(3).model_dump_json().removesuffix("}") + ',"cursor":12}'
    assert [event.cursor for event in following.feed(f"data: {told}\n\n".encode())] == [12]
    assert (following.query, following.headers["Last-Event-ID"]) == ({}, "12")


def test_whoever_may_not_come_in_or_finds_nothing_is_told_at_once() -> None:
    with pytest.raises(NotFound):
        follow().opened(Answer(404, {}, b'{"code": "ERR_NOT_FOUND", "detail": "gone"}'))
    with pytest.raises(Unauthorized):
        follow().opened(Answer(401, {}, b'{"code": "ERR_UNAUTHORIZED", "detail": "who?"}'))


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_gateway_that_is_in_trouble_is_asked_again(status: int) -> None:
    with pytest.raises(Broken):
        follow().opened(Answer(status, {}, b""))


@pytest.mark.parametrize("status", [429, 503])
def test_it_comes_back_no_sooner_than_the_gateway_wants(status: int) -> None:
    following = follow()
    for _ in range(2):  # also at once after events
        with pytest.raises(Broken) as caught:
            following.opened(Answer(status, {"retry-after": "7"}, b""))
        assert following.broken(str(caught.value)) == 7.0
    following.opened(OPEN)
    assert following.broken("cut") < 7


def test_patience_counts_from_the_last_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    following = follow()
    for _ in range(5):
        now += 50
        following.broken("refused")
        following.opened(OPEN)
    began = now
    with pytest.raises(Unavailable, match="refused"):
        while True:
            now += following.broken("refused")
    assert 50 < now - began <= 60


def test_a_connection_that_brought_something_is_made_again_at_once_and_others_after_growing_delays() -> None:
    following = follow()
    following.opened(OPEN)
    assert list(following.feed(sent(stored(1))))
    delays = [following.broken("cut") for _ in range(5)]
    assert delays[0] == 0
    assert 0 < delays[1] <= 0.1 < delays[4]


def test_a_gateway_that_fails_time_after_time_is_told_of() -> None:
    following = follow()
    fault = Answer(500, {}, b'{"code": "ERR_INTERNAL", "detail": "our own fault"}')
    for _ in range(2):
        with pytest.raises(Broken):
            following.opened(fault)
    with pytest.raises(AgencyError, match="our own fault"):
        following.opened(fault)


def test_what_cannot_be_read_is_asked_for_again_and_in_the_end_told() -> None:
    following = follow()
    for _ in range(2):
        following.opened(OPEN)
        with pytest.raises(Broken):
            list(following.feed(b"data: {no json\n\n"))
    following.opened(OPEN)
    with pytest.raises(AgencyError, match="another version"):
        list(following.feed(b"data: {no json\n\n"))
