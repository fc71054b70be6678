"""Requests as they are read from a connection: uvicorn's, by httptools, with the bounds that its parser does not have.

The parser keeps a line of a head or a trailer until it is whole, however long it gets, and begins every request of
those that came at once. So what is unfinished is bounded here, and how many requests may wait for the answer to the one
before. A request says once which host it is for, because the checks of `guard` go by that.

The parser takes what follows a request to speak another protocol for that protocol, even its body. One that is not
granted is therefore read a second time, as a request like others.
"""

from __future__ import annotations

from typing import Any, Literal

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

UNFINISHED_BYTES = 64 * 1024
"""So much of a head may come in pieces, and of what is between two pieces of a body."""

QUEUED = 100
"""So many requests may come before the first of them has its answer."""

INVALID = "the request is not valid HTTP"


class RequestReader(HttpToolsProtocol):
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._reads: Literal["head", "body"] | None = None
        """The part of a request that has begun and is not whole."""
        self._advanced = False
        """Whether what came last ended a head or a request, or was some of a body."""
        self._unfinished = 0
        self._upgrades = False
        self._asks_again = False
        """Whether this is a request to speak another protocol that was not granted."""
        self._withheld: list[tuple[bytes, bytes]] = []
        """Its headers that say so, while it is read a second time."""

    # What uvicorn and asyncio call.

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._advanced = False
        try:
            self._feed(data)
        except HttpParserError:
            self.send_400_response(INVALID)
            return
        self._unfinished = 0 if self._advanced else self._unfinished + len(data)
        if self._unfinished > UNFINISHED_BYTES:
            self.send_400_response(f"a head has at most {UNFINISHED_BYTES} bytes")

    def _should_upgrade(self) -> bool:
        return self._upgrades

    # What the parser calls.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._reads = "head"

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reads == "head":  # and not a trailer, which would come to the headers that were checked
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            raise HttpParserError("a request names its host once")
        if len(self.pipeline) >= QUEUED:
            raise HttpParserError("more requests at once than are taken")
        self.headers += self._withheld
        self._withheld = []
        if self.parser.should_upgrade():
            self._upgrades = not self._at_work and self._can_upgrade()
            self._asks_again = not self._upgrades
        if not self._asks_again:
            self._reads, self._advanced = "body", True
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._advanced = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._asks_again:
            self._reads, self._advanced = None, True
            super().on_message_complete()

    # Inside.

    @property
    def _asked(self) -> bool:
        """Whether its client has made a request here."""
        cycle: object = self.cycle  # None at first, whatever its type says
        return cycle is not None

    @property
    def _at_work(self) -> bool:
        """Whether a request is whole and has not been answered."""
        if self.pipeline:
            return True
        return self._asked and not self.cycle.response_complete and self._reads != "body"

    def _can_upgrade(self) -> bool:
        """Whether a request to speak another protocol is granted."""
        url = parse_url(self.url)
        self.scope |= {
            "method": self.parser.get_method().decode("ascii"),
            "http_version": self.parser.get_http_version(),
            "raw_path": url.path,
            "query_string": url.query or b"",
        }
        return super()._should_upgrade()

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
                return
            except HttpParserUpgrade as pause:
                if self._upgrades:
                    self.handle_websocket_upgrade()
                    return
                data = self._without_upgrade() + data[pause.args[0] :]
                self.parser = HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
                self._asks_again = False

    def _without_upgrade(self) -> bytes:
        """The head of this request without the headers by which it asks for another protocol."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            raise HttpParserError("this is no proxy")
        lines = [b" ".join((method, self.url, b"HTTP/" + self.parser.get_http_version().encode()))]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        self._withheld = [(name, value) for name, value in self.headers if name == b"upgrade"]
        return b"\r\n".join([*lines, b"\r\n"])
