"""Events as WebSocket frames, encoded once for all sockets that they go to.

ASGI has no message for a frame that is encoded already, and going through it costs each socket more than the sending.
So a socket of our own server says in its scope how to write frames; with any other server, events go as ASGI has it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import lru_cache

from starlette.websockets import WebSocket

from dashboard.gateway.patience import Patience
from dashboard.gateway.streaming import gathered

FRAMES = "agency.frames"
"""The extension by which a socket takes frames, with a `Write` as `write`."""

Write = Callable[[bytes], Awaitable[None]]

KEPT = 1_000
KEPT_CHARS = 4_000
"""So many frames are kept for the next socket that gets the same text, of texts that are no longer."""

_WHOLE_TEXT = 0x81
_LENGTH_IN_2, _LENGTH_IN_8 = 126, 127


async def send_texts(websocket: WebSocket, texts: Iterable[str], patience: Patience) -> None:
    """Send texts, each as a message. The client may take only so long for each piece."""
    write: Write | None = (websocket.scope.get("extensions") or {}).get(FRAMES, {}).get("write")
    if write is None:
        for text in texts:
            with patience:
                await websocket.send_text(text)
        return
    for piece in gathered(_frames(texts)):
        with patience:
            await write(piece)


def _frames(texts: Iterable[str]) -> Iterator[bytes]:
    for text in texts:
        yield _kept(text) if len(text) <= KEPT_CHARS else frame(text)


def frame(text: str) -> bytes:
    """A text as a whole frame of a server, which masks nothing (RFC 6455, 5.2)."""
    payload = text.encode()
    length = len(payload)
    if length < _LENGTH_IN_2:
        return bytes((_WHOLE_TEXT, length)) + payload
    if length < 1 << 16:
        return bytes((_WHOLE_TEXT, _LENGTH_IN_2)) + length.to_bytes(2) + payload
    return bytes((_WHOLE_TEXT, _LENGTH_IN_8)) + length.to_bytes(8) + payload


_kept = lru_cache(KEPT)(frame)
