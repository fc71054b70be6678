"""Warming up: what the first requests would wait for happens before the gateway says that it is ready.

FastAPI makes routes and schemas when they are first needed, which takes half a second and holds up all other requests.
So one request of each busy kind goes through the whole app. They are for an agency that does not exist, and change
nothing.
"""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress

from fastapi import FastAPI
from starlette.types import Message, Scope

from dashboard.gateway.access import VOUCHED, Principal
from dashboard.gateway.guard import REHEARSAL

NAME = "warm-up"
"""No agency, no thread and no agent: ids that are given begin otherwise."""

THREAD = f"/agency/{NAME}/agent/{NAME}"
REHEARSED = (
    ("POST", f"/agency/{NAME}/agents", b'{"agentType":"warm-up","messages":[{"role":"user","content":"-"}]}'),
    ("POST", f"{THREAD}/invoke", b'{"messages":[{"role":"user","content":"-"}]}'),
    ("GET", f"{THREAD}/run", b""),
    ("GET", f"{THREAD}/state", b""),
    ("GET", f"{THREAD}/events", b""),
    ("GET", "/healthz", b""),
)


LONGEST = 5.0
"""Seconds after which the gateway is ready without it: the installation may have much to do."""


async def rehearse(app: FastAPI) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(LONGEST):
            for method, path, body in REHEARSED:
                await _ask(app, method, path, body)


def keep_what_is_loaded() -> None:
    """The garbage collector need not look at it again: that takes a fifth of a second each time."""
    gc.collect()
    gc.freeze()


async def _ask(app: FastAPI, method: str, path: str, body: bytes) -> None:
    asked = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if not asked:
            await asyncio.Event().wait()  # its client does not leave
        return asked.pop()

    async def send(message: Message) -> None:
        """The answer is not read."""

    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0),
        "state": {},
        VOUCHED: Principal(),
        REHEARSAL: True,
    }
    await app(scope, receive, send)
