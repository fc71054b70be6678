"""A parser of server-sent events: bytes in, messages out. No I/O.

Pieces may be cut anywhere, also within a line end or a character. A message ends with a blank line; when the connection
breaks before it, the message is dropped and the client asks for it again.
"""

from __future__ import annotations


class Parser:
    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[str]:
        """The data of the complete messages. A comment, which keeps the connection alive, gives an empty one."""
        messages = []
        for line in self._lines(piece):
            if not line:
                messages.append("\n".join(self._data))
                self._data.clear()
            elif line.startswith("data:"):
                self._data.append(line.removeprefix("data:").removeprefix(" "))
        return messages

    def _lines(self, piece: bytes) -> list[str]:
        """The complete lines. The rest, and a CR that may be half a line end, waits for the next piece."""
        text = self._rest + piece
        half = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = text.removesuffix(half).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = rest + half
        return [line.decode("utf-8", "replace") for line in lines]
