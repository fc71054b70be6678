"""What all programs of one process share: they are told how many agents to run at once, and say how long it took.

Only the standard library, because every peer's Python runs it. A program says `ready` when it has loaded; each line
that it reads has a number of agents and of round trips for each, each answer is a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

RunOne = Callable[[int], Awaitable[None]]
"""Runs one new agent, with so many round trips, until it has ended."""

Framework = Callable[[Path], AbstractAsyncContextManager[RunOne]]
"""Opens a framework with its data in that folder."""

ANSWER = "All orders are on their way."


def serve(framework: Framework) -> None:
    """The first argument of the process is the folder for its data."""
    asyncio.run(_serve(framework, Path(sys.argv[1])))


async def _serve(framework: Framework, folder: Path) -> None:
    async with framework(folder) as run_one:
        await run_one(2)  # what is loaded or compiled at first use
        _say({"ready": True})
        while line := await asyncio.to_thread(sys.stdin.readline):
            agents, trips = (int(word) for word in line.split())
            began, cpu = time.perf_counter(), time.process_time()
            await asyncio.gather(*(run_one(trips) for _ in range(agents)))
            took, used = time.perf_counter() - began, time.process_time() - cpu
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            _say({"seconds": took, "cpu_seconds": used, "peak_mb": peak / 1_000})


def _say(what: dict[str, object]) -> None:
    print(json.dumps(what), flush=True)
