"""A stream of server-sent events gives the same data however its bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agency.models.providers.server_sent import EventSplitter

STREAM = (
    b": a comment\n\nevent: start\ndata: {}\n\ndata:without a blank\nid: 7\n\nevent: ping\n\n"
    b"data: two\ndata: lines\n\n\n\ndata: \ndata: after an empty one\n\ndata: [DONE]\n\n"
)
DATA = [b"{}", b"without a blank", b"two\nlines", b"\nafter an empty one", b"[DONE]"]


def read(pieces: list[bytes]) -> list[bytes]:
    split = EventSplitter()
    found = [data for piece in pieces for data in split.add(piece)]
    return [*found, *split.end()]


def cut(stream: bytes, at: list[int]) -> list[bytes]:
    return [stream[start:end] for start, end in pairwise([0, *sorted(at), len(stream)])]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@given(at=st.lists(st.integers(0, len(STREAM)), max_size=40))
def test_data_is_the_same_wherever_the_stream_is_cut(line_end: bytes, at: list[int]) -> None:
    assert read(cut(STREAM.replace(b"\n", line_end), at)) == DATA


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_data_is_the_same_byte_by_byte(line_end: bytes) -> None:
    stream = STREAM.replace(b"\n", line_end)
    assert read([bytes([each]) for each in stream]) == DATA


def test_an_event_that_the_end_cuts_within_a_line_is_left_out() -> None:
    assert read([b'data: {}\n\ndata: {"half":']) == [b"{}"]
    assert read([b'data: {}\n\ndata: {"whole": 1}\n']) == [b"{}", b'{"whole": 1}']
