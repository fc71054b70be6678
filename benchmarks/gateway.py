"""What the gateway adds: a request against the same answer from a bare app, a thread over HTTP against one by its
handle, and a thousand sockets at once.

    python -m benchmarks.gateway [--json]

Starts a local Ray and a gateway of its own in a temporary folder. What is compared is taken in turns in the same run.
`--json` prints one object as the last line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from actors import Cluster, Settings
from benchmarks.plain_sockets import PlainSocket
from dashboard.gateway.discovery import running_gateways

SYSTEM = "benchmarks.actors:system"
ROUNDS = 300
SOCKETS = 1_000
THREADS = 10
AT_ONCE = 50

BARE = """
import fastapi, uvicorn, sys
app = fastapi.FastAPI()
@app.get("/agency")
async def agency() -> dict[str, str]:
    return {"id": "agc_0123456789abcdef", "name": "bench", "createdAt": "2026-11-16T09:30:00.000Z"}
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False)
"""


async def timed(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return (time.perf_counter() - began) * 1000


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


async def until(url: str) -> None:
    async with httpx.AsyncClient() as client:
        for _ in range(300):
            try:
                await client.get(url)
                return
            except httpx.ConnectError:
                await asyncio.sleep(0.1)
    raise RuntimeError(f"no server answers at {url}")


@asynccontextmanager
async def bare() -> AsyncIterator[str]:
    """An app of one route, which answers at once: what HTTP itself costs here."""
    with tempfile.TemporaryFile() as out:
        port = str(free_port())
        process = subprocess.Popen([sys.executable, "-c", BARE, port], stdout=out, stderr=out)  # noqa: ASYNC220
        try:
            await until(f"http://127.0.0.1:{port}/agency")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[tuple[str, int]]:
    environment = {**os.environ, "AGENCY_DATA_DIR": str(folder / "data"), "AGENCY_LOG_LEVEL": "WARNING"}
    command = [sys.executable, "-m", "dashboard.command", "serve", SYSTEM, "--port", "0"]
    with (folder / "log").open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)  # noqa: ASYNC220
    try:
        while not (found := running_gateways(folder / "data")):
            if process.poll() is not None:
                raise RuntimeError((folder / "log").read_text())
            await asyncio.sleep(0.1)
        (kept,) = psutil.Process(process.pid).children()
        yield found[0].url, kept.pid
    finally:
        process.terminate()
        process.wait()


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def requests(url: str, plain: str, cluster: Cluster) -> dict[str, float]:
    """A request that asks the installation one thing, beside one that asks nothing, and the asking alone."""
    agency = await cluster.create_agency("bench")
    over_http: list[float] = []
    over_plain: list[float] = []
    by_handle: list[float] = []
    async with httpx.AsyncClient() as client:
        for _ in range(ROUNDS):
            over_plain.append(await timed(client.get(f"{plain}/agency")))
            by_handle.append(await timed(agency.info()))
            over_http.append(await timed(client.get(f"{url}/agency/{agency.id}")))
    return {
        "request_ms": statistics.median(over_http),
        "bare_request_ms": statistics.median(over_plain),
        "by_handle_ms": statistics.median(by_handle),
    }


async def creations(url: str, cluster: Cluster) -> dict[str, float]:
    agency = await cluster.create_agency("bench")
    over_http: list[float] = []
    by_handle: list[float] = []
    async with httpx.AsyncClient(timeout=60) as client:
        for _ in range(40):
            by_handle.append(await timed(agency.create_thread("clerk")))
            over_http.append(await timed(client.post(f"{url}/agency/{agency.id}/agents", json={"agentType": "clerk"})))
    return {
        "new_thread_ms": statistics.median(over_http),
        "new_thread_by_handle_ms": statistics.median(by_handle),
    }


async def sockets(url: str, pid: int, cluster: Cluster) -> dict[str, float]:
    """A thousand sockets on ten threads that stream: memory for each, and how late the text arrives."""
    agency = await cluster.create_agency("bench")
    threads = [await agency.create_thread("clerk") for _ in range(THREADS)]
    before = rss_bytes(pid)
    opened: list[PlainSocket] = []
    began = time.perf_counter()
    for n in range(0, SOCKETS, AT_ONCE):
        paths = [f"/agency/{agency.id}/agent/{threads[i % THREADS].id}/ws" for i in range(n, n + AT_ONCE)]
        address = url.replace("http", "ws", 1)
        some = [PlainSocket(address + path) for path in paths]
        await asyncio.gather(*(one.connect() for one in some))
        opened += some
    opening = time.perf_counter() - began
    grown = rss_bytes(pid) - before
    following = [asyncio.create_task(one.until(b'"agent.completed"')) for one in opened]
    for thread in threads:
        await thread.invoke("stream")
    await asyncio.gather(*following)
    for one in opened:
        one.close()
    events = [(came, json.loads(text)) for one in opened for came, text in one.texts]
    lags = [
        (came - float(event["data"]["delta"].split()[-1])) * 1000
        for came, event in events
        if event["type"] == "model.delta"
    ]
    return {
        "sockets_opened_per_second": SOCKETS / opening,
        "socket_kb": grown / SOCKETS / 1_000,
        "deltas_per_second": len(lags) / 12.0,
        "delta_p50_ms": statistics.median(lags),
        "delta_p99_ms": statistics.quantiles(lags, n=100)[98],
    }


async def measure() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="agency-bench-") as name:
        folder = Path(name)
        async with gateway(folder) as (url, pid), bare() as plain:
            cluster = await Cluster.join(Settings(system=SYSTEM, data_dir=folder / "data"))
            try:
                found = await requests(url, plain, cluster)
                found |= await creations(url, cluster)
                found |= await sockets(url, pid, cluster)
            finally:
                await cluster.down()
    return found


def report(found: dict[str, float]) -> list[tuple[str, str]]:
    ratio = found["request_ms"] / found["bare_request_ms"]
    added = found["new_thread_ms"] - found["new_thread_by_handle_ms"]
    return [
        ("a request that asks the installation", f"{found['request_ms']:.1f} ms"),
        ("… a bare app's, which asks nothing", f"{found['bare_request_ms']:.1f} ms ({ratio:.1f} times less)"),
        ("… the asking alone", f"{found['by_handle_ms']:.1f} ms"),
        ("a new thread over HTTP", f"{found['new_thread_ms']:.1f} ms ({added:+.1f} to one by its handle)"),
        (f"{SOCKETS} sockets, each", f"{found['socket_kb']:.0f} kB"),
        ("opened a second", f"{found['sockets_opened_per_second']:.0f}"),
        ("text to all of them, a second", f"{found['deltas_per_second']:.0f} deltas"),
        ("… how late", f"p50 {found['delta_p50_ms']:.0f} ms, p99 {found['delta_p99_ms']:.0f} ms"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, Any] = asyncio.run(measure())
    for what, figure in report(found):
        print(f"{what:45} {figure}")
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
