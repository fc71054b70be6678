"""What is left of the speed of one process when threads are served: over HTTP, on Ray, on fast and on slow storage.

    python -m benchmarks.served [--json] [--only local|shared|slow]

Starts installations of its own in temporary folders: one on local storage, one with `AGENCY_STORAGE=shared` on the same
disk, and one on which every sync takes five milliseconds, as on a file server (a library that is compiled here and
loaded into all of its processes; without a C compiler this part is left out). The models answer at once, in the hosts.
What one process does without Ray is measured in the same run. `--json` prints one object as the last line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import psutil

from actors.cluster import local_ray
from agency import AgentSystem, LocalRuntime, ModelReply, ModelRequest, OnDelta, tool
from agency.messages import ToolCall
from dashboard.gateway.discovery import running_gateways

SYSTEM = "benchmarks.served:system"
CREATED, CREATED_AT_ONCE = 1_000, 50
BUSY, TRIPS, BUSY_AT_ONCE = 300, 50, 100
SLOW, SLOW_TRIPS, SLOW_AT_ONCE = 200, 5, 50
SYNC_MS = 5
WARM_UP = 50
WAIT_SECONDS = 120

Kind = Literal["local", "shared", "slow"]

SLOW_SYNC = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
int fsync(int fd) { usleep(SYNC_US); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
int fdatasync(int fd) { usleep(SYNC_US); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); }
"""


class Instant:
    """Calls the tool as often as the message says, and then is done."""

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        wanted = int(next(each.content for each in reversed(request.messages) if each.role == "user"))
        made = sum(each.role == "tool" for each in request.messages)
        if made >= wanted:
            return ModelReply(text="done", stop="stop")
        return ModelReply(tool_calls=(ToolCall(id=f"c{made}", name="look_up", args={"n": made}),), stop="tool_use")


@tool(safe=True)
async def look_up(n: int) -> int:
    """Look something up."""
    return n


system = (
    AgentSystem("instant:any", providers={"instant": Instant()})
    .add_tool(look_up)
    .add_agent(name="clerk", description="Looks things up.", prompt="You look things up.", limits={"turns": 1_000})
)


async def at_once(work: Iterable[Callable[[], Awaitable[Any]]], most: int) -> list[Any]:
    """All of it, so many at a time."""
    gate = asyncio.Semaphore(most)

    async def one(each: Callable[[], Awaitable[Any]]) -> Any:
        async with gate:
            return await each()

    return await asyncio.gather(*(one(each) for each in work))


# One process, without Ray.


async def in_process() -> float:
    """Round trips a second."""
    with tempfile.TemporaryDirectory(prefix="agency-bench-") as folder:
        async with LocalRuntime(system, Path(folder)) as runtime:
            threads = [await runtime.create_thread("clerk") for _ in range(BUSY)]

            async def run(n: int) -> None:
                await threads[n].invoke(str(TRIPS))
                assert (await threads[n].wait()).status == "completed"

            began = time.perf_counter()
            await at_once((lambda n=n: run(n) for n in range(BUSY)), BUSY_AT_ONCE)  # type: ignore[misc]
            return BUSY * TRIPS / (time.perf_counter() - began)


# Served.


def slow_sync(folder: Path) -> Path | None:
    """A library that makes each sync slow; None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    source, library = folder / "slow_sync.c", folder / "slow_sync.so"
    source.write_text(SLOW_SYNC.replace("SYNC_US", str(SYNC_MS * 1_000)))
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


class Served:
    """An installation that is served, and its processes."""

    def __init__(self, url: str, data_dir: Path) -> None:
        self.url = url
        self._data_dir = data_dir
        self._client = httpx.AsyncClient(
            base_url=url, timeout=WAIT_SECONDS, limits=httpx.Limits(max_connections=200, max_keepalive_connections=200)
        )

    async def agency(self) -> str:
        answered = await self._client.post("/agencies", json={"name": "bench"})
        return str(answered.raise_for_status().json()["id"])

    async def run(self, agency: str, trips: int) -> tuple[float, float]:
        """A new thread with its run; milliseconds until it was made, and until it was done."""
        began = time.perf_counter()
        message = [{"role": "user", "content": str(trips)}]
        made = await self._client.post(f"/agency/{agency}/agents", json={"agentType": "clerk", "messages": message})
        thread = made.raise_for_status().json()["id"]
        created = time.perf_counter()
        run = await self._client.get(f"/agency/{agency}/agent/{thread}/run", params={"wait": WAIT_SECONDS})
        assert run.raise_for_status().json()["status"] == "completed", run.text
        return (created - began) * 1_000, (time.perf_counter() - began) * 1_000

    def cpu_ms(self) -> float:
        """What the gateway, the directory, agencies and hosts have used so far."""
        running = local_ray.find(self._data_dir)
        assert running is not None
        gateways = {child.pid for each in running_gateways(self._data_dir) for child in _children(each.pid)}
        total = 0.0
        for pid in [*running.processes, *gateways]:
            try:
                process = psutil.Process(pid)
                if pid in gateways or process.name().startswith("ray::") or "ray::" in " ".join(process.cmdline()[:1]):
                    times = process.cpu_times()
                    total += times.user + times.system
            except psutil.Error:
                continue
        return total * 1_000

    async def close(self) -> None:
        await self._client.aclose()


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children()
    except psutil.Error:
        return []


@asynccontextmanager
async def served(kind: Kind, folder: Path) -> AsyncIterator[Served]:
    data = folder / "data"
    environment = {**os.environ, "AGENCY_DATA_DIR": str(data), "AGENCY_LOG_LEVEL": "WARNING"}
    if kind != "local":
        environment["AGENCY_STORAGE"] = "shared"
    if kind == "slow":
        library = slow_sync(folder)
        assert library is not None
        environment["LD_PRELOAD"] = str(library)
    command = [sys.executable, "-m", "dashboard.command"]
    with (folder / "log").open("wb") as out:
        process = subprocess.Popen(  # noqa: ASYNC220
            [*command, "serve", SYSTEM, "--port", "0"], env=environment, stdout=out, stderr=out
        )
    try:
        while not (found := running_gateways(data)):
            if process.poll() is not None:
                raise RuntimeError((folder / "log").read_text())
            await asyncio.sleep(0.1)
        one = Served(found[0].url, data)
        yield one
        await one.close()
    finally:
        subprocess.run([*command, "down"], env=environment, check=False, stdout=subprocess.DEVNULL)  # noqa: ASYNC221
        process.wait()


async def timed_runs(one: Served, number: int, trips: int, most: int) -> tuple[float, list[tuple[float, float]], float]:
    """Seconds for all, milliseconds of each, and CPU milliseconds."""
    agency = await one.agency()
    cpu, began = one.cpu_ms(), time.perf_counter()
    times = await at_once([lambda: one.run(agency, trips)] * number, most)
    return time.perf_counter() - began, times, one.cpu_ms() - cpu


async def measure(only: Kind | None) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind in ("local", "shared", "slow"):
        if only in (None, kind) and not (kind == "slow" and shutil.which("cc") is None and shutil.which("gcc") is None):
            with tempfile.TemporaryDirectory(prefix="agency-bench-") as folder:
                async with served(kind, Path(folder)) as one:
                    await timed_runs(one, WARM_UP, 1, WARM_UP)
                    found |= await _MEASURED[kind](one)
    if only in (None, "local"):
        found["in_process_round_trips_per_s"] = await in_process()
        found["served_ratio"] = found["round_trips_per_s"] / found["in_process_round_trips_per_s"]
    if "shared_round_trips_per_s" in found and "round_trips_per_s" in found:
        found["shared_ratio"] = found["shared_round_trips_per_s"] / found["round_trips_per_s"]
    return {name: round(value, 3) for name, value in found.items()}


async def on_local(one: Served) -> dict[str, float]:
    seconds, times, cpu = await timed_runs(one, CREATED, 1, CREATED_AT_ONCE)
    created, done = zip(*times, strict=True)
    busy, _, _ = await timed_runs(one, BUSY, TRIPS, BUSY_AT_ONCE)
    return {
        "threads_per_s": CREATED / seconds,
        "cpu_ms_per_thread": cpu / CREATED,
        "create_p50_ms": statistics.median(created),
        "done_p50_ms": statistics.median(done),
        "done_p99_ms": statistics.quantiles(done, n=100)[98],
        "round_trips_per_s": BUSY * TRIPS / busy,
    }


async def on_shared(one: Served) -> dict[str, float]:
    busy, _, _ = await timed_runs(one, BUSY, TRIPS, BUSY_AT_ONCE)
    return {"shared_round_trips_per_s": BUSY * TRIPS / busy}


async def on_slow(one: Served) -> dict[str, float]:
    seconds, times, _ = await timed_runs(one, SLOW, SLOW_TRIPS, SLOW_AT_ONCE)
    return {
        "slow_storage_threads_per_s": SLOW / seconds,
        "slow_storage_round_trips_per_s": SLOW * SLOW_TRIPS / seconds,
        "slow_storage_create_p50_ms": statistics.median(created for created, _ in times),
    }


_MEASURED = {"local": on_local, "shared": on_shared, "slow": on_slow}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--only", choices=("local", "shared", "slow"))
    options = parser.parse_args()
    found = asyncio.run(measure(options.only))
    for name, value in found.items():
        print(f"{name:40} {value:10.1f}")
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
