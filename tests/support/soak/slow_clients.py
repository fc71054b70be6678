"""Clients that cost a server something and give it nothing: heads that trickle in, sockets that are idle, live
connections and answers that are never read, bodies that stop or have too many values, requests for a WebSocket that are
none. There are so many at a time, and each comes again when the server has sent it away."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import urlsplit

from tests.support.soak.tenant import Findings
from tests.support.waiting import cancel_all

EACH = 8
"""How many there are of each kind."""
TRICKLE = 0.5
LEFT_LYING = 20.0


SOCKET = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
"""What a request for a WebSocket says besides its key."""

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class SlowClients:
    def __init__(self, url: Callable[[], str], feed: Callable[[], str], credential: str, findings: Findings) -> None:
        self._url = url
        self._feed = feed
        self._credential = credential
        self._findings = findings
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        kinds = (
            self._trickle,
            self._idle,
            self._never_read,
            self._leave_answers,
            self._stop_in_the_middle,
            self._send_many_values,
            self._ask_for_no_socket,
        )
        self._tasks = [asyncio.create_task(self._again(kind)) for kind in kinds for _ in range(EACH)]

    async def end(self) -> None:
        await cancel_all(self._tasks)
        self._tasks = []

    async def _again(self, behave: Behaviour) -> None:
        while True:
            with suppress(OSError):
                found = urlsplit(self._url())
                reader, writer = await asyncio.open_connection(found.hostname, found.port, limit=4_096)
                self._findings.count("slow connections")
                try:
                    await behave(reader, writer)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(1)

    async def _trickle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A byte now and then of a head that never ends."""
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        while not reader.at_eof():
            writer.write(b"a")
            await writer.drain()
            with suppress(TimeoutError):
                async with asyncio.timeout(TRICKLE):
                    await reader.read(100)

    async def _idle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Nothing at all, until the server has enough of it."""
        await reader.read()

    async def _never_read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A feed that is asked for from its beginning, and whose events are left lying."""
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write(self._head(f"GET {self._feed()}?after=0", *SOCKET, f"Sec-WebSocket-Key: {key}"))
        await writer.drain()
        await asyncio.sleep(LEFT_LYING)  # the reader's buffer is small, so what is sent stays with the server

    async def _leave_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Long answers that are asked for and left lying."""
        writer.write(self._head("GET /openapi.json") * 10)
        await writer.drain()
        await asyncio.sleep(LEFT_LYING)

    async def _stop_in_the_middle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A body that begins fast and does not go on."""
        writer.write(self._head("POST /agencies", "Content-Length: 1000000") + b" " * 500_000)
        await reader.read()

    async def _send_many_values(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A body that is short, and would be long in memory."""
        body = b"[" + b"0," * 500_000 + b"0]"
        writer.write(self._head("POST /agencies", "Connection: close", f"Content-Length: {len(body)}") + body)
        await self._expect(b"413", reader)

    async def _ask_for_no_socket(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A request for a WebSocket that has a body and no key."""
        writer.write(self._head(f"GET {self._feed()}", *SOCKET, "Content-Length: 5") + b"hello")
        await self._expect(b"400", reader)

    async def _expect(self, status: bytes, reader: asyncio.StreamReader) -> None:
        said = await reader.read(12)
        told = not said or said[9:12] in (status, b"503")  # a server that has just ended says nothing
        self._findings.expect(told, f"a client that should be told {status.decode()} was told {said!r}")

    def _head(self, first: str, *lines: str) -> bytes:
        said = (f"{first} HTTP/1.1", "Host: localhost", f"X-SECRET: {self._credential}", *lines, "", "")
        return "\r\n".join(said).encode()
