"""Talking to a gateway: the requests that tests make again and again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from tests.support.gateways import Server
from tests.support.scripted_system import Line, script

Json = Any
Found = TypeVar("Found")
PATIENCE = 30.0


def message(*lines: Line) -> list[dict[str, str]]:
    """A message that has the model say these lines."""
    return [{"role": "user", "content": script(*lines)}]


def create(http: httpx.Client, agency: str, *lines: Line, agent: str = "clerk", **more: Json) -> str:
    """A new thread's id, at work if there are lines."""
    body = {"agentType": agent, **({"messages": message(*lines)} if lines else {}), **more}
    answer = http.post(f"/agency/{agency}/agents", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def finished(http: httpx.Client, agency: str, thread: str, wait: float = 30) -> Json:
    """The run's envelope once it has ended or needs a person."""
    answer = http.get(f"/agency/{agency}/agent/{thread}/run", params={"wait": wait})
    assert answer.status_code == 200, answer.text
    return answer.json()


def stored(http: httpx.Client, agency: str, thread: str) -> list[Json]:
    """All events of a thread."""
    found: list[Json] = []
    after: int | None = 0
    while after is not None:
        page = http.get(f"/agency/{agency}/agent/{thread}/events", params={"after": after}).json()
        found += page["events"]
        after = page["next"]
    return found


def key(owner: httpx.Client, agency: str, role: str, name: str | None = None) -> Json:
    """A new key of an agency, with its text."""
    made = owner.post(f"/agency/{agency}/keys", json={"name": name or f"the {role}'s", "role": role})
    assert made.status_code == 201, made.text
    return made.json()


def holding(server: Server, credential: str) -> httpx.Client:
    """A client with a key, or with the secret."""
    return server.client(Authorization=f"Bearer {credential}")


async def socket_events(server: Server, path: str, **headers: str) -> AsyncIterator[Json]:
    async with connect(server.ws + path, additional_headers=headers, proxy=None) as socket:
        async for frame in socket:
            yield json.loads(frame)


async def follow_to_the_end(server: Server, path: str, seconds: float = 120) -> list[Json]:
    """All stored events of a thread to the end of its run, whatever happens to the other side meanwhile."""
    seen: list[Json] = []
    async with asyncio.timeout(seconds):
        while True:
            after = seen[-1]["seq"] if seen else 0
            try:
                async with connect(f"{server.ws}{path}?after={after}", proxy=None, open_timeout=60) as opened:
                    async for frame in opened:
                        event = json.loads(frame)
                        if event["seq"] is not None:
                            seen.append(event)
                        if event["type"] == "agent.completed":
                            return seen
            except (OSError, WebSocketException):
                await asyncio.sleep(0.05)  # as a client pauses before it tries again


def assert_problem(answer: httpx.Response, status: int, code: str) -> str:
    """That a request was refused so; what people are told."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    problem = answer.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert set(problem) == {"type", "title", "status", "detail", "code"}
    return str(problem["detail"])
