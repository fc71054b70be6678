"""A model's stream, read once: from the bytes of the response to the JSON of its events.

The SDKs make a typed object of every event, which takes most of the time of a streamed call and tells nothing that the
JSON does not. They still send the request, with their authentication, and judge the answer's status; the body is read
here. What arrived together is handed on together, so a piece of text costs no switch of tasks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

if TYPE_CHECKING:
    import httpx2

END = b"[DONE]"
"""What OpenAI's API sends as its last event."""
DRAIN_SECONDS = 0.1
"""How long the end of a body is waited for after that: a connection is used again only if its body was read."""

Json = dict[str, Any]


async def read_events(response: httpx2.Response, sdk: ModuleType) -> AsyncIterator[list[Json]]:
    """The events of a stream that are JSON objects, those together that came together. One that tells of an error is
    raised, as the SDK would."""
    split = EventSplitter()
    body = response.aiter_bytes()
    async for piece in body:
        found: list[Json] = []
        for data in split.add(piece):
            if data.startswith(END):
                yield found
                await _drain(body)
                return
            found += _object(data, response, sdk)
        if found:
            yield found
    for data in split.end():
        yield _object(data, response, sdk)


def _object(data: bytes, response: httpx2.Response, sdk: ModuleType) -> list[Json]:
    said = _json(data)
    if not isinstance(said, dict):
        return []
    if said.get("error"):
        raise sdk.APIError("the stream tells of an error", response.request, body=said["error"])
    return [said]


def _json(data: bytes) -> object:
    try:
        return from_json(data)
    except ValueError:
        return json.loads(data)  # takes half of a surrogate pair, too, which servers send that cut text anywhere


async def _drain(body: AsyncIterator[bytes]) -> None:
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in body:
                pass
    except Exception:  # noqa: S110  # the reply is whole, whatever comes behind it
        pass


class EventSplitter:
    """Finds the data of server-sent events in bytes that come in pieces. Names of events are left out: in the streams of
    models, the data says what it is."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """The event that is not over yet, as far as it has come."""
        self._open_line = False
        """Whether it ends within a line, or with one that is over: the next line feed ends it then."""
        self._carriage = False
        """Whether the piece before ended with a carriage return, so that a line feed that follows ends no line."""

    def add(self, piece: bytes) -> Iterator[bytes]:
        if piece and (self._carriage or b"\r" in piece):
            piece = self._with_line_feeds(piece)
        if not piece:
            return
        if self._rest and not self._open_line and piece.startswith(b"\n"):
            yield from self._ended()
        *events, rest = piece.split(b"\n\n")
        for event in events:
            if self._rest:
                self._rest.append(event)
                yield from self._ended()
            else:
                yield from _data_of(event)
        if rest:
            self._rest.append(rest)
            self._open_line = not rest.endswith(b"\n")

    def end(self) -> Iterator[bytes]:
        """The data of the event that is not over yet, but for a line that is not."""
        whole, _, _ = b"".join(self._rest).rpartition(b"\n")
        self._rest = []
        return _data_of(whole)

    def _ended(self) -> Iterator[bytes]:
        event = b"".join(self._rest)
        self._rest = []
        return _data_of(event)

    def _with_line_feeds(self, piece: bytes) -> bytes:
        if self._carriage:
            self._carriage = False
            piece = piece.removeprefix(b"\n")
        if piece:
            self._carriage = piece.endswith(b"\r")
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _data_of(event: bytes) -> Iterator[bytes]:
    lines = [line for line in event.split(b"\n") if line.startswith(b"data:")]
    if lines:
        yield b"\n".join(line[6:] if line[5:6] == b" " else line[5:] for line in lines)
