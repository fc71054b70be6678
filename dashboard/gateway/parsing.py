"""JSON of requests, parsed strictly: a lone surrogate such as `"\\ud800"`, which UTF-8 cannot encode, is refused here.

Python's own JSON parser accepts it, and storing or sending the text would fail later.

The one idea: what a body costs is how many values it has, and its bytes do not tell. So those of a large one are
counted first, which costs little, and too many are refused. Large bodies are counted and parsed one after the other, in
a thread: many of them at once hold up each other, and not what else the gateway does.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from fastapi import Request
from pydantic_core import from_json
from starlette.exceptions import HTTPException

from agency.errors import TooLarge
from dashboard.gateway.content import given

UNSAID = ("", "text/plain")
"""The content types that say nothing about a body."""

LARGE_BYTES = 64 * 1024
"""Shorter bodies are parsed at once: they cannot have many values."""

VALUES_MOST = 250_000
"""How many values a body has at most."""

_WINDOW = 64 * 1024
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_TEXT = re.compile(rb'"[^"]*"?')
_BEFORE_VALUES = (b",", b"[", b"{")


class JsonRequest(Request):
    async def check_values(self) -> None:
        """Refuse a body that would become too many values."""
        body = await given(self)
        if len(body) <= LARGE_BYTES or _most_values(body) <= VALUES_MOST:
            return
        async with self._turn:
            too_many = await asyncio.to_thread(has_more_values, body, VALUES_MOST)
        if too_many:
            raise TooLarge(
                f"the body has more than {VALUES_MOST} values (texts, numbers, lists and so on), and no more are read: "
                "send less at once"
            )

    async def json(self) -> Any:
        body = await self.body()
        try:
            if len(body) <= LARGE_BYTES:
                return from_json(body)
            async with self._turn:
                return await asyncio.to_thread(from_json, body)
        except ValueError as error:
            # An error of ours would reach the client as FastAPI's, without the reason.
            raise HTTPException(400, f"the body is not valid JSON: {error}") from error

    @property
    def _turn(self) -> asyncio.Lock:
        turn: asyncio.Lock = self.app.state.parsing
        return turn


def has_more_values(body: bytes, most: int) -> bool:
    """Whether JSON has more values than these. Each comma and each bracket outside of texts is the place of one.

    It is read in windows, so that other threads have their turn; a text or an escape may go on in the next one.
    """
    found, rest, in_text = 1, b"", False
    for at in range(0, len(body), _WINDOW):
        part = _ESCAPED.sub(b"", rest + body[at : at + _WINDOW])
        rest = b"\\" if part.endswith(b"\\") else b""
        part = (b'"' if in_text else b"") + part
        in_text = part.count(b'"') % 2 == 1
        found += _most_values(_TEXT.sub(b"", part))
        if found > most:
            return True
    return False


def _most_values(body: bytes) -> int:
    return sum(body.count(each) for each in _BEFORE_VALUES)
