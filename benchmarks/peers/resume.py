"""Runs at work, every process of the server killed, the same command again: how many runs complete by themselves.

Runs of Agno's AgentOS are background runs with a checkpoint after each batch of tools; its durable queue has no store
in SQLite.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import aiohttp

from benchmarks.peers.over_http import session
from benchmarks.peers.servers import Agno, Begun, Ours, Server, model_server

RUNS = 20
SLOW = "5 500"
KILL_AFTER, GIVE_UP_AFTER = 1.5, 45.0


async def resumed(server: Server, http: aiohttp.ClientSession) -> tuple[int, float]:
    """How many complete, and how many seconds after the kill the last of them has."""
    await server.start(http)
    try:
        await server.run(http, "1 0")
        begun = await asyncio.gather(*(server.begin(http, SLOW) for _ in range(RUNS)))
        await asyncio.sleep(KILL_AFTER)
        server.kill()
        killed = time.monotonic()
        await server.start(http)
        waiting: set[Begun] = set(begun)
        last = 0.0
        while waiting and time.monotonic() < killed + GIVE_UP_AFTER:
            for each in sorted(waiting, key=lambda one: one.session):
                if await server.has_completed(http, each):
                    waiting.remove(each)
                    last = time.monotonic() - killed
            await asyncio.sleep(0.25)
        return RUNS - len(waiting), last
    finally:
        server.stop()


async def compare() -> dict[str, float]:
    found: dict[str, float] = {"resume_runs": RUNS}
    with tempfile.TemporaryDirectory(prefix="agency-bench-") as name, model_server() as model:
        folders = [Path(name) / each for each in ("ours", "agno")]
        for folder in folders:
            folder.mkdir()
        servers: list[Server] = [Ours(folders[0], model), Agno(folders[1], model, checkpoints=True)]
        for folder, server in zip(folders, servers, strict=True):
            async with session() as http:
                completed, seconds = await resumed(server, http)
            found[f"{folder.name}_resumed"] = completed
            found[f"{folder.name}_resumed_within_s"] = seconds
    return found


def measure() -> dict[str, float]:
    return asyncio.run(compare())
