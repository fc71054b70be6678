"""Connections of clients: how many there may be, and how long one may take to say what it wants.

The one idea: a connection that waits for its client may always be closed, one that is at work never. So a new client
is let in as long as any other connection waits: the one that has waited longest makes room. Only if all are at work,
the new one is refused, by a 503. Clients that are connected and say nothing, or say it slowly, therefore keep no
other client out, and the process never runs out of descriptors, of which a reserve is left for all else that it does.

A connection waits for the head of a request that has begun or is its first (`head`), for the next request (`kept`), for
the rest of a body (`body`), or until its client takes more of an answer, of which it has taken nothing for a while
(`answer`). Live ones are at work; `LiveConnections` says how many of those there may be.
"""

from __future__ import annotations

import asyncio
import http
from typing import Any, Literal

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from agency.errors import InvalidInput, Unavailable
from dashboard.gateway.frames import FRAMES
from dashboard.gateway.metrics import CONNECTIONS_CLOSED
from dashboard.gateway.problems import as_problem, problem
from dashboard.gateway.requests_read import RequestReader
from dashboard.gateway.upgrades import can_upgrade

ACCEPTED_AT_ONCE = 8
"""How many connections are accepted before those already there are looked at: the reserve has room for some times as
many."""

REFUSED_AT_ONCE = 16
"""Clients that are told so in full. Those beyond are told without waiting for their request, and may miss it."""

REFUSAL_SECONDS = 2.0
CLOSE_SECONDS = 5.0
BYTES_A_SECOND = 1_024
"""What a client must send of a body, or take of an answer, at least, beyond its first seconds."""

STALLED_SECONDS = 1.0
"""Who takes nothing of an answer for so long may have to make room."""

Waiting = Literal["answer", "head", "kept", "body"]
MAKE_ROOM: tuple[Waiting, ...] = ("answer", "head", "kept", "body")
"""Who is closed first when there is no room."""


class Connections:
    """The connections of one gateway that wait for their clients, and who has to make room."""

    def __init__(self, most: int, slow: float) -> None:
        self._most = most
        self.slow = slow
        self._waiting: dict[Waiting, dict[HttpConnection, None]] = {each: {} for each in MAKE_ROOM}
        self._refused: set[HttpConnection] = set()

    def has_room(self, connected: int) -> bool:
        """Whether so many can be connected, the new one among them; one that waits may have been closed for it."""
        if connected - len(self._refused) <= self._most:
            return True
        for each in MAKE_ROOM:
            if longest := next(iter(self._waiting[each]), None):
                longest.give_way()
                return True
        return False

    def can_tell(self, refused: HttpConnection) -> bool:
        """Whether a refused client's request can be waited for, to be answered."""
        if len(self._refused) < REFUSED_AT_ONCE:
            self._refused.add(refused)
        return refused in self._refused

    def waits(self, connection: HttpConnection, what: Waiting | None) -> None:
        """From now on it waits for this; None is at work, or gone."""
        for each in self._waiting.values():
            each.pop(connection, None)
        if what is not None:
            self._waiting[what][connection] = None

    def left(self, connection: HttpConnection) -> None:
        self.waits(connection, None)
        self._refused.discard(connection)


class HttpConnection(RequestReader):
    """A connection with a place among the others and deadlines."""

    def __init__(self, places: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._places = places
        self._refused = False
        self._left = False
        """It is closed, or a WebSocket by now."""
        self._waits: Waiting | None = None
        self._received = 0
        self._timer: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    # What uvicorn and asyncio call.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        if self._places.has_room(len(self.connections)):
            self._wait("head")
        else:
            self._refuse()

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        self._look(began=True)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look(began=False)

    def handle_websocket_upgrade(self) -> None:
        self._leave()
        super().handle_websocket_upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._leave()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._abort_later()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader(self._unsent())
        self._watch_stalled(self._unsent())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_watching_reader()
        if self._waits == "answer":
            self._wait(None)

    def send_400_response(self, msg: str) -> None:
        answered = self._reads == "body" and self.cycle.response_started
        if not (self._at_work or answered):
            self.transport.write(_as_bytes(problem(400, InvalidInput.code, msg)))
        self._close()

    def _can_upgrade(self) -> bool:
        """What is no whole request for a WebSocket is left to `guard`, which refuses it."""
        return not self._refused and super()._can_upgrade() and can_upgrade(self.scope)

    # What it waits for.

    def _look(self, *, began: bool) -> None:
        """What is it waiting for now? `began` if something has just come, which may be a part of a head."""
        if self._refused or self._left:
            return
        if self.transport.is_closing():
            self._wait(None)
            self._abort_later()
        elif self._at_work:
            self._wait(None)
        elif self._reads == "body":
            self._wait("body")
        else:
            self._wait("head" if began or self._reads == "head" or not self._asked else "kept")

    def _wait(self, what: Waiting | None) -> None:
        if what == self._waits:
            return
        self._waits = what
        self._places.waits(self, what)
        self._stop_timer()
        if what in ("head", "body"):  # uvicorn has a timer for what is kept
            self._watch_pace()

    def _check_pace(self) -> None:
        """Close it if its client was too slow since it was looked at last. A body that is not read because of us is not
        its fault; the rest of one whose request is answered by now is of no use."""
        keeps_pace = self._waits == "body" and self._received >= BYTES_A_SECOND * self._places.slow
        if self.flow.read_paused or (keeps_pace and not self.cycle.response_complete):
            self._watch_pace()
        else:
            self._too_slow()

    def _watch_pace(self) -> None:
        self._received = 0
        self._timer = self.loop.call_later(self._places.slow, self._check_pace)

    def _too_slow(self) -> None:
        CONNECTIONS_CLOSED.labels("slow").inc()
        if self._is_owed_an_answer():
            said = f"the request has not come in time: a client may take {self._places.slow:g} seconds"
            self.transport.write(_as_bytes(problem(408, "ERR_SLOW", said)))
        self._close()

    def _is_owed_an_answer(self) -> bool:
        if self._waits == "body":
            return not self.cycle.response_started
        return self._received > 0 or self._asked

    def give_way(self) -> None:
        """Make room for another client."""
        CONNECTIONS_CLOSED.labels("room").inc()
        self.connections.discard(self)
        self._leave()
        self.transport.abort()

    def _watch_reader(self, left: int) -> None:
        """Close it if its client takes too little of its answer."""

        def check() -> None:
            now = self._unsent()
            if left - now < BYTES_A_SECOND * self._places.slow:
                CONNECTIONS_CLOSED.labels("slow").inc()
                self.transport.abort()
            else:
                self._watch_reader(now)

        self._stall = self.loop.call_later(self._places.slow, check)

    def _watch_stalled(self, before: int) -> None:
        """Let it make room for others while its client takes nothing of its answer."""

        def check() -> None:
            now = self._unsent()
            if now < before and self._waits == "answer":
                self._wait(None)
            elif now >= before and self._waits is None:
                self._wait("answer")
            self._watch_stalled(now)

        self._unread = self.loop.call_later(STALLED_SECONDS, check)

    # Its end.

    def _refuse(self) -> None:
        CONNECTIONS_CLOSED.labels("full").inc()
        self._refused = True
        if self._places.can_tell(self):
            self.app = _refusal
            self._timer = self.loop.call_later(REFUSAL_SECONDS, self._refuse_unasked)
        else:
            self._refuse_unasked()

    def _refuse_unasked(self) -> None:
        if not self._asked:
            self.transport.write(_as_bytes(_full()))
        self._close()

    def _close(self) -> None:
        self._stop_timer()
        self._places.waits(self, None)
        self.transport.close()
        self._abort_later()

    def _abort_later(self) -> None:
        """A transport that is closed first sends what it has, and its client need not take that."""
        if self._timer is None:
            self._timer = self.loop.call_later(CLOSE_SECONDS, self._abort_if_stuck, self._unsent())

    def _abort_if_stuck(self, before: int) -> None:
        self._timer = None
        if (now := self._unsent()) and now < before:
            self._abort_later()
        else:
            self.transport.abort()

    def _unsent(self) -> int:
        return self.transport.get_write_buffer_size()

    def _leave(self) -> None:
        self._left = True
        self._places.left(self)
        self._stop_timer()
        self._stop_watching_reader()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_watching_reader(self) -> None:
        for timer in (self._stall, self._unread):
            if timer is not None:
                timer.cancel()
        self._stall = self._unread = None


class SocketConnection(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, which takes frames as they are, and is gone soon after its application has ended, whether or
    not its client reads."""

    async def run_asgi(self) -> None:
        self.scope["extensions"] = {**(self.scope["extensions"] or {}), FRAMES: {"write": self.write_frames}}
        try:
            await super().run_asgi()
        finally:
            self.loop.call_later(self.close_timeout + CLOSE_SECONDS, self.transport.abort)

    async def write_frames(self, frames: bytes) -> None:
        await self.writable.wait()
        if self.close_sent or self.disconnected:
            raise WebSocketDisconnect
        self.transport.write(frames)


def _full() -> Response:
    return as_problem(Unavailable("this gateway serves as many clients as it can; try again in a moment"))


async def _refusal(scope: Scope, receive: Receive, send: Send) -> None:
    answer = _full()
    answer.headers["Connection"] = "close"
    await answer(scope, receive, send)


def _as_bytes(answer: Response) -> bytes:
    """An answer as it is sent outside of any request."""
    lines = [f"HTTP/1.1 {answer.status_code} {http.HTTPStatus(answer.status_code).phrase}".encode()]
    lines += [name + b": " + value for name, value in answer.raw_headers]
    return b"\r\n".join([*lines, b"connection: close", b"", bytes(answer.body)])
