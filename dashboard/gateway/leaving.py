"""Clients that leave before they have an answer: what they have asked is given up, and a call that still waits for its
turn leaves the queue of its agency.

Only requests that read are given up. What changes something goes on as if the client were there: it may have begun,
and a client that asks again under the same key gets its answer.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

READS = ("GET", "HEAD")


class Leaving:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] in READS:
            await _Reading(receive, send).serve(self._app, scope)
        else:
            await self._app(scope, receive, send)


class _Reading:
    """One request that reads, in the task that serves it. Another one watches whether the client is still there."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._received: asyncio.Queue[Message] = asyncio.Queue()
        self._answers = False
        self._left = False

    async def serve(self, app: ASGIApp, scope: Scope) -> None:
        task: asyncio.Task[Any] | None = asyncio.current_task()
        assert task is not None
        watching = asyncio.create_task(self._watch(task))
        try:
            await app(scope, self._received.get, self._note)
        except asyncio.CancelledError:
            if not self._left or task.uncancel():
                raise
        finally:
            watching.cancel()

    async def _watch(self, serving: asyncio.Task[Any]) -> None:
        while True:
            message = await self._receive()
            self._received.put_nowait(message)
            if message["type"] == "http.disconnect":
                break
        if not self._answers:  # else the response itself notices
            self._left = True
            serving.cancel()

    async def _note(self, message: Message) -> None:
        self._answers = True
        await self._send(message)
