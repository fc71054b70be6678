"""How fast threads are placed and woken on Ray, how many fit, and how fast their events arrive.

    python -m benchmarks.actors [--json]

Starts a local Ray of its own in a temporary folder. A thread from the warm pool is compared with a bare Ray actor,
taken in turns in the same run. `--json` prints one object as the last line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Any

import ray

from actors import AgencyHandle, Cluster, Settings, ThreadHandle
from agency import AgentSystem, Event, ModelReply, ModelRequest, OnDelta

AWAKE = 2_000
STREAMING = 200
STREAM_SECONDS = 12.0
DELTA_SECONDS = 0.1
HIBERNATE_AFTER = 2.0
AT_ONCE = 32


class Scripted:
    """`wait` never answers, `stream` says for a while what time it is, anything else is answered at once."""

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        wanted = request.messages[-1].content
        if wanted == "wait":
            await asyncio.Event().wait()
        if wanted == "stream":
            end = time.monotonic() + STREAM_SECONDS
            while time.monotonic() < end:
                on_delta(f"{time.time():.6f} ")
                await asyncio.sleep(DELTA_SECONDS)
        return ModelReply(text="done", stop="stop")


system = AgentSystem("scripted:any", providers={"scripted": Scripted()}).add_agent(
    name="clerk", description="Answers.", prompt="You answer."
)


class Bare:
    """What a thread would be if it were a Ray actor of its own."""

    async def answer(self) -> str:
        return "here"


_BARE: Any = ray.remote(Bare)


async def timed(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return (time.perf_counter() - began) * 1000


def p50(times: Iterable[float]) -> float:
    return statistics.median(times)


async def in_groups(work: Iterable[Awaitable[Any]]) -> list[Any]:
    """All of it, a few at a time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(each: Awaitable[Any]) -> Any:
        async with gate:
            return await each

    return await asyncio.gather(*map(one, work))


async def until(condition: Any, seconds: float = 120.0) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.1)


async def rss_kb(cluster: Cluster) -> float:
    return sum(host.rss_bytes or 0 for host in (await cluster.status()).hosts) / 1024


async def activation(cluster: Cluster, agency: AgencyHandle, rounds: int) -> tuple[list[float], list[float]]:
    """A new thread in a warm host, from the call until it is on disk and awake; and a bare actor that has answered."""

    async def warm() -> bool:
        return any(host.state == "ready" and not host.threads for host in (await cluster.status()).hosts)

    async def bare() -> None:
        actor = _BARE.options(num_cpus=0).remote()
        await actor.answer.remote()
        ray.kill(actor)

    ours, theirs = [], []
    for i in range(rounds):
        await until(warm)
        theirs.append(await timed(bare()))
        await asyncio.sleep(0.5)  # what the bare one leaves behind is cleaned up
        ours.append(await timed(agency.create_thread("clerk", thread_id=f"new{i}")))
        await agency.delete_thread(f"new{i}")
    return ours, theirs


async def awake(cluster: Cluster, agency: AgencyHandle) -> tuple[int, float]:
    """How many threads have a run in progress at once, and the memory that each takes."""
    for i in range(40):  # every host has had a thread before the measuring begins
        await (await agency.create_thread("clerk", "hello", thread_id=f"early{i}")).wait(30)
    before = await rss_kb(cluster)
    threads = await in_groups(agency.create_thread("clerk", "wait") for _ in range(AWAKE))

    async def all_at_work() -> bool:
        return sum(host.working for host in (await cluster.status()).hosts) >= AWAKE

    await until(all_at_work)
    working = sum(host.working for host in (await cluster.status()).hosts)
    per_thread = (await rss_kb(cluster) - before) / AWAKE
    await in_groups(agency.delete_thread(thread.id) for thread in threads)
    return working, per_thread


async def asleep(cluster: Cluster, agency: AgencyHandle, count: int) -> tuple[list[tuple[ThreadHandle, int]], float]:
    """Threads that hibernate, each with the seq of its last event, and what the second half adds to the memory."""

    async def all_asleep() -> bool:
        return (await cluster.status()).awake == 0

    async def one() -> tuple[ThreadHandle, int]:
        thread = await agency.create_thread("clerk", "hello")
        await thread.wait(30)
        return thread, len(await thread.stored_events())

    async def batch() -> list[tuple[ThreadHandle, int]]:
        made: list[tuple[ThreadHandle, int]] = await in_groups(one() for _ in range(count))
        await until(all_asleep)
        return made

    await batch()
    before = await rss_kb(cluster)
    threads = await batch()
    return threads, (await rss_kb(cluster) - before) / count


async def wake(thread: ThreadHandle, after: int) -> float:
    """From a message to a thread that hibernates until its first new event has arrived here."""
    began = time.perf_counter()
    sending = asyncio.create_task(thread.invoke("hello again"))
    async for _ in thread.events(after):
        break
    took = (time.perf_counter() - began) * 1000
    await sending
    return took


async def feed(agency: AgencyHandle) -> tuple[list[float], float]:
    """The age of every delta when it arrives, while all of many threads stream; and deltas a second."""
    threads = await in_groups(agency.create_thread("clerk") for _ in range(STREAMING))
    ages: list[float] = []
    times: list[float] = []

    async def watch(thread: ThreadHandle) -> None:
        async for event in thread.events():
            if event.seq is None:
                ages.extend(_ages(event))
            elif event.type == "agent.completed":
                times.append(time.perf_counter())
                return

    watching = [asyncio.create_task(watch(thread)) for thread in threads]
    await in_groups(thread.invoke("stream") for thread in threads)
    await asyncio.sleep(1)
    ages.clear()  # from here on all of them stream, until the first has ended
    began = time.perf_counter()
    await asyncio.wait(watching, return_when=asyncio.FIRST_COMPLETED)
    counted, took = list(ages), min(times) - began
    await asyncio.gather(*watching)
    return counted, len(counted) / took


def _ages(event: Event) -> list[float]:
    now = time.time()
    return [(now - float(emitted)) * 1000 for emitted in str(event.data["delta"]).split()]


async def measure(folder: Path) -> dict[str, float]:
    settings = Settings(
        system="benchmarks.actors:system",
        data_dir=folder,
        python_path=(os.getcwd(),),  # noqa: PTH109  # entries of sys.path are strings
        namespace="benchmark",
        hibernate_after=HIBERNATE_AFTER,
    )
    cluster = await Cluster.join(settings)
    try:
        agency = await cluster.create_agency("benchmark")
        ours, theirs = await activation(cluster, agency, 20)
        working, awake_kb = await awake(cluster, agency)
        sleepers, asleep_kb = await asleep(cluster, agency, 300)
        waking = [await wake(thread, after) for thread, after in sleepers[:40]]
        ages, rate = await feed(agency)
    finally:
        await cluster.down()
    return {
        "activation_ms_p50": round(p50(ours), 2),
        "bare_ray_actor_ms_p50": round(p50(theirs), 1),
        "activation_speedup": round(p50(theirs) / p50(ours), 1),
        "kb_per_awake_thread": round(awake_kb, 1),
        "awake_threads": working,
        "kb_per_hibernated_thread": round(max(0.0, asleep_kb), 1),
        "wake_ms_p50": round(p50(waking), 1),
        "feed_ms_p50": round(p50(ages), 2),
        "feed_deltas_per_s": round(rate),
    }


def report(figures: dict[str, float]) -> str:
    return (
        f"a new thread from the warm pool    {figures['activation_ms_p50']:.1f} ms\n"
        f"  a bare Ray actor                 {figures['bare_ray_actor_ms_p50']:.0f} ms "
        f"({figures['activation_speedup']:.0f} times slower)\n"
        f"threads with a run in progress     {figures['awake_threads']:.0f}\n"
        f"  memory of each                   {figures['kb_per_awake_thread']:.0f} kB\n"
        f"a hibernated thread                {figures['kb_per_hibernated_thread']:.0f} kB\n"
        f"from hibernation to its next event {figures['wake_ms_p50']:.0f} ms\n"
        f"a delta, from model to consumer    {figures['feed_ms_p50']:.1f} ms with {STREAMING} threads streaming "
        f"{figures['feed_deltas_per_s']:.0f} deltas a second"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder)))
    print(report(figures))
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
