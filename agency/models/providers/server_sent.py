"""A model's stream, read once: from the bytes of the response to the JSON of its events.

The SDKs make a typed object of every event, which takes most of the time of a streamed call and tells nothing that the
JSON does not. They still send the request, with their authentication, and judge the answer's status; the body is read
here. What arrived together is handed on together, so a piece of text costs no switch of tasks.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator
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
        found = split.add(piece)
        ends = next((at for at, data in enumerate(found) if data.startswith(END)), None)
        if found:
            for events in _objects(found[:ends], response, sdk):
                yield events
        if ends is not None:
            await _drain(body)
            return
    for events in _objects(split.end(), response, sdk):
        yield events


def _objects(found: list[bytes], response: httpx2.Response, sdk: ModuleType) -> Iterator[list[Json]]:
    """All events up to one that tells of an error, which is raised."""
    objects: list[Json] = []
    for said in _parsed(found):
        if isinstance(said, dict):
            if said.get("error"):
                yield objects
                raise sdk.APIError("the stream tells of an error", response.request, body=said["error"])
            objects.append(said)
    yield objects


def _parsed(found: list[bytes]) -> Iterable[object]:
    """Each as JSON. All at once is quicker; what that does not take is read one by one, as far as it can be read."""
    try:
        together: list[object] = from_json(b"[%b]" % b",".join(found))
    except ValueError:
        together = []
    # Half of a surrogate pair is read as well: servers send it that cut a text anywhere.
    return together if len(together) == len(found) else (json.loads(data) for data in found)


async def _drain(body: AsyncIterator[bytes]) -> None:
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in body:
                pass
    except Exception:  # the reply is whole, whatever comes behind it
        pass


class EventSplitter:
    """Finds the data of server-sent events in bytes that come in pieces. Names of events are left out: in the streams
    of models, the data says what it is."""

    def __init__(self) -> None:
        self._rest = b""
        """The event that is not over yet, as far as it has come."""
        self._more: list[bytes] = []
        """What has come of it since; a large one is put together once."""
        self._carriage = False
        """Whether the piece before ended with a carriage return, so that a line feed that follows ends no line."""

    def add(self, piece: bytes) -> list[bytes]:
        if piece and (self._carriage or b"\r" in piece):
            piece = self._with_line_feeds(piece)
        if b"\n" not in piece:
            self._more.append(piece)
            return []
        events, ended, self._rest = b"".join((self._rest, *self._more, piece)).rpartition(b"\n\n")
        self._more = []
        return _data_in(events) if ended else []

    def end(self) -> list[bytes]:
        """The data of the event that is not over yet, but for a line that is not."""
        lines, _, _ = b"".join((self._rest, *self._more)).rpartition(b"\n")
        return _data_in(lines)

    def _with_line_feeds(self, piece: bytes) -> bytes:
        if self._carriage:
            self._carriage = False
            piece = piece.removeprefix(b"\n")
        if piece:
            self._carriage = piece.endswith(b"\r")
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


_DATA = re.compile(rb"^data: ?(.*)$", re.MULTILINE)
_SECOND_LINE = re.compile(rb"^data:.*\n(?:.+\n)*?data:", re.MULTILINE)
"""An event whose data has more than one line. Models' servers send none, but they may."""


def _data_in(events: bytes) -> list[bytes]:
    if _SECOND_LINE.search(events) is None:
        return _DATA.findall(events)
    found = (b"\n".join(_DATA.findall(event)) for event in events.split(b"\n\n") if _DATA.search(event))
    return list(found)
