"""Long answers, in pieces: the gateway never makes the whole text of one, and between two pieces it serves others.

Lists come in pages, which are short. What is left are single things that can be long: the state of a thread, a call
with all that it returned, a file. They are sent as fast as their client takes them, which has only so long for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Send

PIECE_BYTES = 64 * 1024
DEPTH = 3
"""What is deeper in a value is written in one piece: a message of a conversation, a file of a state."""


class PatientStream(StreamingResponse):
    """An answer in pieces, to a client that may take only so long for each."""

    def __init__(self, pieces: AsyncIterator[bytes | str], slow: float, **more: Any) -> None:
        super().__init__(pieces, **more)
        self._slow = slow

    async def stream_response(self, send: Send) -> None:
        async def bounded(message: Message) -> None:
            async with asyncio.timeout(self._slow):
                await send(message)

        await super().stream_response(bounded)


def whole(model: BaseModel, request: Request) -> Response:
    """The answer with one thing that can be long, as JSON."""
    return _answer(gathered(_json(model, DEPTH)), request, {"Content-Type": "application/json"})


def content_of(content: bytes, request: Request, headers: Mapping[str, str]) -> Response:
    """The answer with content as it is."""
    view = memoryview(content)
    pieces = (bytes(view[at : at + PIECE_BYTES]) for at in range(0, len(content), PIECE_BYTES))
    return _answer(pieces, request, {**headers, "Content-Length": str(len(content))})


def _answer(pieces: Iterator[bytes], request: Request, headers: Mapping[str, str]) -> Response:
    first, second = next(pieces, b""), next(pieces, None)
    if second is None:
        return Response(first, headers=dict(headers))
    slow: float = request.app.state.settings.slow
    return PatientStream(_giving_way(chain((first, second), pieces)), slow, headers=dict(headers))


async def _giving_way(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)


def gathered(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Small parts together, so that each piece is worth sending."""
    piece: list[bytes] = []
    length = 0
    for part in parts:
        piece.append(part)
        length += len(part)
        if length >= PIECE_BYTES:
            yield b"".join(piece)
            piece, length = [], 0
    if piece:
        yield b"".join(piece)


def _json(value: object, depth: int) -> Iterator[bytes]:
    """A value as JSON, as the model itself would write it."""
    match value:
        case BaseModel() if depth and _is_plain(type(value)):
            yield from _json_object(_fields(value), depth - 1)
        case dict() if depth:
            yield from _json_object(value.items(), depth - 1)
        case list() | tuple() if depth:
            yield from _json_list(value, depth - 1)
        case _:
            yield to_json(value)


def _json_object(items: Iterable[tuple[object, object]], depth: int) -> Iterator[bytes]:
    before = b"{"
    for name, value in items:
        yield before + to_json(name) + b":"
        yield from _json(value, depth)
        before = b","
    yield b"{}" if before == b"{" else b"}"


def _json_list(items: Iterable[object], depth: int) -> Iterator[bytes]:
    before = b"["
    for value in items:
        yield before
        yield from _json(value, depth)
        before = b","
    yield b"[]" if before == b"[" else b"]"


def _fields(model: BaseModel) -> Iterator[tuple[str, object]]:
    for name, field in type(model).model_fields.items():
        yield field.serialization_alias or name, getattr(model, name)
    yield from (model.model_extra or {}).items()


@cache
def _is_plain(kind: type[BaseModel]) -> bool:
    """Whether its fields, by their names outside, are all that it writes."""
    how = kind.__pydantic_decorators__
    special = (how.field_serializers, how.model_serializers, how.computed_fields, kind.__pydantic_root_model__)
    return not any(special) and not any(field.exclude for field in kind.model_fields.values())
