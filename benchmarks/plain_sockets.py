"""A WebSocket client that does as little as can be, so that a thousand of them in one process measure their server."""

from __future__ import annotations

import asyncio
import time
from urllib.parse import urlsplit

_TEXT, _CLOSE, _PING, _PONG = 0x1, 0x8, 0x9, 0xA
_FINAL, _MASKED = 0x80, 0x80


class PlainSocket(asyncio.Protocol):
    """Notes when each text came in, and leaves what is in it for later."""

    def __init__(self, address: str) -> None:
        loop = asyncio.get_running_loop()
        self._address = urlsplit(address)
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._is_open = False
        self._last = b""
        self.opened: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.texts: list[tuple[float, bytes]] = []

    async def connect(self) -> None:
        host, port = self._address.hostname or "", self._address.port or 0
        await asyncio.get_running_loop().create_connection(lambda: self, host, port)
        await self.opened

    async def until(self, last: bytes) -> None:
        """Until a text came in that has this in it."""
        self._last = last
        await self.ended

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        head = (
            f"GET {self._address.path} HTTP/1.1\r\nHost: {self._address.netloc}\r\nConnection: Upgrade\r\n"
            "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        transport.write(head.encode())

    def connection_lost(self, exc: Exception | None) -> None:
        for each in (self.opened, self.ended):
            if not each.done():
                each.set_exception(ConnectionError(f"the server has closed a socket: {self._buffer[:500]!r}"))
                each.exception()

    def data_received(self, data: bytes) -> None:
        now = time.time()
        self._buffer += data
        if not self._is_open:
            if b"\r\n\r\n" not in self._buffer:
                return
            head, _, rest = self._buffer.partition(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 101 "):
                self.close()
                return
            self._is_open, self._buffer = True, rest
            self.opened.set_result(None)
        at = 0
        while (found := _frame(self._buffer, at)) is not None:
            begin, end = found
            self._take(self._buffer[at] & 0xF, self._buffer[begin:end], now)
            at = end
        self._buffer = self._buffer[at:]

    def _take(self, kind: int, payload: bytes, now: float) -> None:
        if kind == _TEXT:
            self.texts.append((now, payload))
            if self._last and self._last in payload and not self.ended.done():
                self.ended.set_result(None)
        elif kind == _PING and self._transport is not None:
            self._transport.write(bytes((_FINAL | _PONG, _MASKED | len(payload), 0, 0, 0, 0)) + payload)
        elif kind == _CLOSE:
            self.close()


def _frame(buffer: bytes, at: int) -> tuple[int, int] | None:
    """Where the payload of the frame at a place begins and ends; None if it is not all there."""
    if len(buffer) < at + 2:
        return None
    length, more = buffer[at + 1], {126: 2, 127: 8}.get(buffer[at + 1], 0)
    begin = at + 2 + more
    if more:
        length = int.from_bytes(buffer[at + 2 : begin])
    return (begin, begin + length) if len(buffer) >= begin + length else None
