"""Runs over HTTP: ours behind its gateway, Agno's AgentOS with SQLite. One run is a new conversation with five calls
of a tool, so six model calls, to the same model server.

Both are measured in turns, and for each load the better round counts. CPU is that of all processes of the server, at
50 at once. Memory is taken after the start, and with 50 runs at work whose model is slow.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from benchmarks.peers.servers import Agno, Ours, Server, model_server

TRIPS = 5
QUICK = f"{TRIPS} 0"
LOADS = {1: 60, 20: 300, 50: 400}
"""How many runs are at work at once, and how many there are in all."""
ROUNDS = 2
WARM_UP = 50
SETTLE_SECONDS = 10
BUSY, BUSY_MS = 50, 1_000


@dataclass
class Measured:
    runs_per_s: dict[int, float] = field(default_factory=dict)
    p50_ms: float = float("inf")
    p99_ms: float = float("inf")
    cpu_ms: float = float("inf")
    pss_idle: float = 0.0
    pss_busy: float = 0.0
    disk_bytes: float = 0.0


async def at_once(work: Callable[[], Awaitable[None]], number: int, most: int) -> list[float]:
    """Milliseconds of each."""
    gate, times = asyncio.Semaphore(most), []

    async def one() -> None:
        async with gate:
            began = time.perf_counter()
            await work()
            times.append((time.perf_counter() - began) * 1_000)

    await asyncio.gather(*(one() for _ in range(number)))
    return times


def session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=300), trust_env=False
    )


async def load(server: Server, http: aiohttp.ClientSession, most: int, into: Measured) -> None:
    cpu, began = server.cpu_ms(), time.perf_counter()
    times = await at_once(lambda: server.run(http, QUICK), LOADS[most], most)
    took = time.perf_counter() - began
    into.runs_per_s[most] = max(into.runs_per_s.get(most, 0.0), LOADS[most] / took)
    if most == max(LOADS):
        into.cpu_ms = min(into.cpu_ms, (server.cpu_ms() - cpu) / LOADS[most])
        into.p50_ms = min(into.p50_ms, statistics.median(times))
        into.p99_ms = min(into.p99_ms, statistics.quantiles(times, n=100)[98])


async def memory(server: Server, http: aiohttp.ClientSession, into: Measured) -> None:
    busy = asyncio.gather(*(server.run(http, f"{TRIPS} {BUSY_MS}") for _ in range(BUSY)))
    await asyncio.sleep(TRIPS * BUSY_MS / 2_000)
    into.pss_busy = server.pss_mb()
    await busy


async def compare() -> dict[str, Measured]:
    with tempfile.TemporaryDirectory(prefix="agency-bench-") as name, model_server() as model:
        folders = {each: Path(name) / each for each in ("ours", "agno")}
        for folder in folders.values():
            folder.mkdir()
        servers: dict[str, Server] = {"ours": Ours(folders["ours"], model), "agno": Agno(folders["agno"], model)}
        found = {each: Measured() for each in servers}
        try:
            async with session() as http:
                for each, server in servers.items():
                    await server.start(http)
                    await asyncio.sleep(SETTLE_SECONDS)
                    found[each].pss_idle = server.pss_mb()
                    await at_once(lambda server=server: server.run(http, QUICK), WARM_UP, WARM_UP)  # type: ignore[misc]
                for _ in range(ROUNDS):
                    for most in LOADS:
                        for each, server in servers.items():
                            await load(server, http, most, found[each])
                for each, server in servers.items():
                    await memory(server, http, found[each])
                    runs = WARM_UP + ROUNDS * sum(LOADS.values()) + BUSY
                    found[each].disk_bytes = server.disk_bytes() / runs
        finally:
            for server in servers.values():
                server.stop()
        return found


def measure() -> dict[str, float]:
    found = asyncio.run(compare())
    ours, agno = found["ours"], found["agno"]
    figures: dict[str, float] = {}
    for each, measured in found.items():
        figures |= {f"{each}_http_runs_per_s_at_{most}": value for most, value in measured.runs_per_s.items()}
        figures |= {
            f"{each}_http_p50_ms_at_50": measured.p50_ms,
            f"{each}_http_p99_ms_at_50": measured.p99_ms,
            f"{each}_http_cpu_ms_per_run": measured.cpu_ms,
            f"{each}_pss_mb_idle": measured.pss_idle,
            f"{each}_pss_mb_busy": measured.pss_busy,
            f"{each}_disk_bytes_per_run": measured.disk_bytes,
        }
    ratios = {f"http_runs_per_s_ratio_at_{most}": ours.runs_per_s[most] / agno.runs_per_s[most] for most in LOADS}
    return (
        figures
        | ratios
        | {
            "http_p99_ratio_at_50": ours.p99_ms / agno.p99_ms,
            "http_cpu_per_run_ratio": ours.cpu_ms / agno.cpu_ms,
            "pss_mb_idle": ours.pss_idle,
            "pss_mb_busy": ours.pss_busy,
        }
    )
