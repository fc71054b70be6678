"""What one tenant stores and asks for costs the others little: each waits for its turn among its own calls."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import httpx
import psutil
import pytest

from actors.agency_hosts import home_of, names_of
from tests.support.gateway_requests import Json, assert_problem, create, finished, message
from tests.support.gateways import Server
from tests.support.scripted_system import say

CROWD = 10
REQUESTS = 24
BOUND = 5.0
"""Seconds that nine of ten requests of a neighbour take at most on a very busy machine, where without turns and pages
they take ten and more."""

GROWTH = 400 * 1024 * 1024
PAGE_BYTES = 1_048_576
BLUEPRINT_BYTES = 524_288


def largest(n: int) -> Json:
    """A blueprint as large as it may be: a long prompt, and for some a configuration with many small values."""
    many = 0 if n % 16 else 3_000
    small = [{"name": f"value {i}", "known": [i, i + 1, i + 2], "deep": {"yes": True}} for i in range(many)]
    made = {"name": f"large-{n:03}", "prompt": "p" * 262_144, "config": {"padding": small}}
    room = BLUEPRINT_BYTES - len(json.dumps(made, separators=(",", ":"))) - 1_000
    return {**made, "description": "d" * room}


async def fill(http: httpx.AsyncClient, agency: str) -> int:
    """Store the largest blueprints until no more are accepted; how many there are."""
    for n in range(100):
        answer = await http.post(f"/agency/{agency}/blueprints", json=largest(n))
        if answer.status_code != 201:
            assert "AGENCY_CATALOGUE_BYTES" in assert_problem(answer, 413, "ERR_TOO_LARGE")
            return n
    raise AssertionError("a hundred of the largest were accepted")


async def crowd(http: httpx.AsyncClient, agency: str, over: asyncio.Event, sizes: list[int]) -> None:
    """List all blueprints, and begin threads of the large ones, again and again."""
    while not over.is_set():
        after: str | None = ""
        while after is not None and not over.is_set():
            answer = await http.get(f"/agency/{agency}/blueprints", params={"after": after, "limit": 1_000})
            if answer.status_code == 429:
                break
            sizes.append(len(answer.content))
            after = json.loads(answer.content[answer.content.rindex(b'"next":') + 7 : -1])
        await http.post(f"/agency/{agency}/agents", json={"agentType": "large-000"})


def timed(ask: Callable[[], httpx.Response]) -> float:
    began = time.monotonic()
    assert ask().status_code < 400
    return time.monotonic() - began


def neighbour(http: httpx.Client, agency: str, thread: str) -> Iterator[float]:
    """How long ordinary requests of another tenant take."""
    for n in range(REQUESTS // 4):
        yield timed(lambda: http.get(f"/agency/{agency}"))
        yield timed(lambda: http.get(f"/agency/{agency}/agents"))
        yield timed(lambda: http.get(f"/agency/{agency}/agent/{thread}/state"))
        kept = {"name": "mine", "prompt": f"You are number {n}."}
        yield timed(lambda kept=kept: http.post(f"/agency/{agency}/blueprints", json=kept))  # type: ignore[misc]


@pytest.mark.timeout(300)  # it stores 32 MB, on machines that may be slow
async def test_a_tenant_with_much_and_large_blueprints_does_not_hold_up_another(
    gateway: Server, http: httpx.Client
) -> None:
    noisy, quiet = (str(http.post("/agencies", json={"name": name}).json()["id"]) for name in ("noisy", "quiet"))
    thread = create(http, quiet, say("here"))
    finished(http, quiet, thread)
    home = home_of(noisy, names_of(gateway.settings.agency_hosts))
    (pid,) = (each["pid"] for each in http.get("/status").json()["agencyHosts"] if each["name"] == home)
    control_plane = psutil.Process(pid)
    alone = sorted(await asyncio.to_thread(lambda: list(neighbour(http, quiet, thread))))
    limits = httpx.Limits(max_connections=CROWD)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=120, limits=limits) as many:
        assert await fill(many, noisy) >= 60
        before, over, sizes = control_plane.memory_info().rss, asyncio.Event(), list[int]()
        crowding = [asyncio.create_task(crowd(many, noisy, over, sizes)) for _ in range(CROWD)]
        try:
            among = sorted(await asyncio.to_thread(lambda: list(neighbour(http, quiet, thread))))
            grown = control_plane.memory_info().rss - before
        finally:
            over.set()
            with suppress(httpx.HTTPError):
                await asyncio.gather(*crowding)
    assert sizes, "the crowd was served, too"
    assert max(sizes) < PAGE_BYTES + BLUEPRINT_BYTES
    most = among[len(among) * 9 // 10]
    assert most < max(BOUND, 20 * alone[-1]), f"alone at most {alone[-1]:.2f} s, among others {among}"
    assert grown < GROWTH, f"the process of its agency grew by {grown:,} bytes"


async def rush(http: httpx.AsyncClient, agency: str, over: asyncio.Event, made: list[int]) -> None:
    """Begin threads one after the other."""
    while not over.is_set():
        body = {"agentType": "clerk", "messages": message(say("done"))}
        answer = await http.post(f"/agency/{agency}/agents", json=body)
        assert answer.status_code in (201, 429), answer.text
        made.append(answer.status_code)


@pytest.mark.timeout(300)
async def test_a_tenant_that_makes_threads_as_fast_as_it_can_does_not_hold_up_another(http: httpx.Client) -> None:
    noisy, quiet = (str(http.post("/agencies", json={"name": name}).json()["id"]) for name in ("noisy", "quiet"))
    thread = create(http, quiet, say("here"))
    finished(http, quiet, thread)
    alone = sorted(await asyncio.to_thread(lambda: list(neighbour(http, quiet, thread))))
    async with httpx.AsyncClient(base_url=http.base_url, headers=http.headers, timeout=120) as many:
        over, made = asyncio.Event(), list[int]()
        rushing = [asyncio.create_task(rush(many, noisy, over, made)) for _ in range(CROWD)]
        try:
            among = sorted(await asyncio.to_thread(lambda: list(neighbour(http, quiet, thread))))
        finally:
            over.set()
            await asyncio.gather(*rushing)
    assert made.count(201) >= CROWD, "the other one was served, too"
    assert among[-1] < max(BOUND, 20 * alone[-1]), f"alone at most {alone[-1]:.2f} s, among others {among}"


async def test_lists_come_in_pages_of_so_many_bytes_without_a_gap(http: httpx.Client, agency: str) -> None:
    for n in range(6):
        large = {"name": f"large-{n}", "prompt": "p" * 262_144, "description": "d" * 200_000}
        assert http.post(f"/agency/{agency}/blueprints", json=large).status_code == 201
    found, pages = list[str](), 0
    after: str | None = ""
    while after is not None:
        answer = http.get(f"/agency/{agency}/blueprints", params={"after": after})
        assert len(answer.content) < PAGE_BYTES + BLUEPRINT_BYTES
        found += [each["name"] for each in answer.json()["blueprints"]]
        after, pages = answer.json()["next"], pages + 1
    assert found == sorted(set(found))
    assert {f"large-{n}" for n in range(6)} | {"clerk"} <= set(found)
    assert pages >= 3
