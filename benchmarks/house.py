"""What an installation takes of a small machine: processes, memory, idle CPU, and how soon it serves.

    python -m benchmarks.house [--json] [--list]

Serves the offline demo from a temporary folder, twice. The first installation is sent 20 new threads at once as soon as
it is ready, then 50 of the demo's families of agents at once. The second one is let alone: what it takes when
idle. Memory is PSS: what is shared by several processes counts once. `--list` shows each process of the idle
installation, `--json` prints one object as the last line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from actors.cluster import local_ray
from dashboard import demo
from dashboard.gateway.discovery import running_gateways

BURST = 20
BUSY = 50
READY_SECONDS = 60.0
SETTLE_SECONDS = 20.0
"""In which the demo's first thread comes to wait for its visitor."""
IDLE_SECONDS = 30.0
RUN_SECONDS = 120.0
LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class House:
    """An installation that is served."""

    url: str
    data_dir: Path
    ready_s: float
    """From the command to the answer that a thread could run."""

    def processes(self) -> set[int]:
        """The keepers, the local Ray's leader and its session, and all that these have started."""
        running = local_ray.find(self.data_dir)
        roots = {each.pid for each in running_gateways(self.data_dir)} | {*(running.processes if running else ())}
        found = set(roots)
        for pid in roots:
            with suppress(psutil.Error):
                found |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
        return found

    def pss_mb(self) -> float:
        return sum(map(pss_mb, self.processes()))


def pss_mb(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1_000
    return 0.0


def cpu_seconds(pid: int) -> float:
    with suppress(psutil.Error):
        times = psutil.Process(pid).cpu_times()
        return times.user + times.system
    return 0.0


@asynccontextmanager
async def house(folder: Path) -> AsyncIterator[House]:
    data = folder / "data"
    environment = {**os.environ, "AGENCY_DATA_DIR": str(data), "AGENCY_LOG_LEVEL": "WARNING"}
    command = [sys.executable, "-m", "dashboard.command"]
    with (folder / "log").open("wb") as out:
        began = time.perf_counter()
        process = subprocess.Popen(  # noqa: ASYNC220
            [*command, "serve", "--demo", "--port", "0"], env=environment, stdout=out, stderr=out
        )
    try:
        yield House(await _ready_url(process, data, folder / "log"), data, time.perf_counter() - began)
    finally:
        subprocess.run([*command, "down"], env=environment, check=False, stdout=subprocess.DEVNULL)  # noqa: ASYNC221
        process.wait()


async def _ready_url(process: subprocess.Popen[bytes], data: Path, log: Path) -> str:
    deadline = time.monotonic() + READY_SECONDS
    async with httpx.AsyncClient() as client:
        while process.poll() is None and time.monotonic() < deadline:
            for each in running_gateways(data):
                with suppress(httpx.HTTPError):
                    if (await client.get(f"{each.url}/healthz")).status_code == 200:
                        return each.url
            await asyncio.sleep(0.02)
    raise RuntimeError(log.read_text())


async def create(client: httpx.AsyncClient, agency: str) -> tuple[str, float]:
    """A new thread of the demo with its run; its path, and how many milliseconds that took."""
    body = {"agentType": demo.AGENT, "messages": [{"role": "user", "content": demo.TASK}]}
    began = time.perf_counter()
    made = await client.post(f"/agency/{agency}/agents", json=body)
    took = (time.perf_counter() - began) * 1_000
    return f"/agency/{agency}/agent/{made.raise_for_status().json()['id']}/run", took


async def burst(client: httpx.AsyncClient, agency: str, number: int) -> tuple[list[str], list[float]]:
    made = await asyncio.gather(*(create(client, agency) for _ in range(number)))
    return [path for path, _ in made], [took for _, took in made]


async def come_to_rest(client: httpx.AsyncClient, runs: list[str]) -> None:
    """Until each waits for a person, as the demo's do in the end."""
    deadline = time.monotonic() + RUN_SECONDS
    for path in runs:
        while (status := (await client.get(path)).raise_for_status().json()["status"]) != "paused":
            assert status == "running" and time.monotonic() < deadline, f"{path} is {status}"
            await asyncio.sleep(0.2)


async def worked(folder: Path) -> dict[str, float]:
    limits = httpx.Limits(max_connections=100, max_keepalive_connections=100)
    async with house(folder) as one, httpx.AsyncClient(base_url=one.url, timeout=RUN_SECONDS, limits=limits) as client:
        agency = str((await client.post("/agencies", json={"name": "bench"})).raise_for_status().json()["id"])
        runs, took = await burst(client, agency, BURST)
        await come_to_rest(client, runs)
        most, begun = 0.0, (await burst(client, agency, BUSY))[0]
        resting = asyncio.create_task(come_to_rest(client, begun))
        while not resting.done():
            most = max(most, await asyncio.to_thread(one.pss_mb))
            await asyncio.wait({resting}, timeout=LOOK_SECONDS)
        await resting
    return {"ready_s": one.ready_s, "first_burst_ms_max": max(took), "pss_mb_busy": most}


async def idle(folder: Path, *, listed: bool) -> dict[str, float]:
    async with house(folder) as one:
        await asyncio.sleep(SETTLE_SECONDS)
        before = {pid: cpu_seconds(pid) for pid in one.processes()}
        began = time.perf_counter()
        await asyncio.sleep(IDLE_SECONDS)
        used = {pid: cpu_seconds(pid) - before.get(pid, 0.0) for pid in one.processes()}
        seconds = time.perf_counter() - began
        memory = {pid: pss_mb(pid) for pid in used}
        if listed:
            for pid in sorted(used):
                print(f"{memory[pid]:7.1f} MB {used[pid] / seconds:7.2%}  {_what(pid)}")
    return {
        "processes": len(used),
        "pss_mb_idle": sum(memory.values()),
        "idle_cpu_percent": 100 * sum(used.values()) / seconds,
    }


def _what(pid: int) -> str:
    with suppress(psutil.Error):
        return " ".join(psutil.Process(pid).cmdline())[:100]
    return "has ended"


async def measure(*, listed: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="agency-bench-") as first, tempfile.TemporaryDirectory() as second:
        found = await worked(Path(first)) | await idle(Path(second), listed=listed)
    return {name: round(value, 2) for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--list", action="store_true", help="show each process of the idle installation")
    options = parser.parse_args()
    found = asyncio.run(measure(listed=options.list))
    for name, value in found.items():
        print(f"{name:25} {value:10.1f}")
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
