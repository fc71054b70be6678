"""A tool on Ray: calls that need a processor run as Ray tasks, side by side, in processes of their own.

    python -m examples.ray_tool

`ray={"num_cpus": 1}` is all that the tool says about it; with `{"num_gpus": 1}`, a cluster would run it where a GPU is
free. If no Ray is running, a local one is started, which takes a few seconds, and stopped at the end.
"""

from __future__ import annotations

import asyncio
import math
import os
import tempfile
import time
from typing import cast

from rich.console import Console

from actors import Cluster
from agency import AgentSystem, EventType, tool

SLICE = 150_000
ORDERS = [f'call count_primes {{"first": {n}, "last": {n + SLICE - 1}}}' for n in range(1, 4 * SLICE, SLICE)]


@tool(safe=True, ray={"num_cpus": 1})  # safe: the calls of one reply may run side by side
def count_primes(first: int, last: int) -> dict[str, float]:
    """Count the primes from one number to another."""
    began = time.time()
    found = sum(all(n % d for d in range(2, math.isqrt(n) + 1)) for n in range(max(first, 2), last + 1))
    return {"first": first, "last": last, "primes": found, "process": os.getpid(), "began": began, "ended": time.time()}


system = (
    AgentSystem(default_model="demo:instant")
    .add_tool(count_primes)
    .add_agent(name="mathematician", description="Counts.", prompt="You count primes.")
)


async def count(cluster: Cluster, console: Console) -> None:
    agency = await cluster.create_agency("academy")
    console.print(f"Ray is up. {len(ORDERS)} calls in one reply; this is process {os.getpid()}.")
    thread = await agency.create_thread("mathematician", "\n".join(ORDERS))
    results = []
    async for event in thread.events():
        if event.type == EventType.TOOL_OUTPUT:
            found = cast(dict[str, int], event.data["output"])
            results.append(found)
            console.print("  ✓ {first:>6} to {last:>6}: {primes:>5} primes, by process {process}".format(**found))
        if event.type == EventType.TOOL_ERROR:
            raise SystemExit(str(event.data["error"]))
        if event.type == EventType.AGENT_COMPLETED:
            break
    start, end = min(each["began"] for each in results), max(each["ended"] for each in results)
    console.print("\nWhen each of them ran:")
    for each in sorted(results, key=lambda each: each["began"]):
        left, right = (round(50 * (each[when] - start) / (end - start)) for when in ("began", "ended"))
        console.print(f"  {each['process']:>8} {' ' * left}{'━' * max(1, right - left)}", style="cyan")


async def work(data_dir: str, console: Console) -> None:
    console.print("Joining Ray …")
    cluster = await Cluster.join(system="examples.ray_tool:system", data_dir=data_dir, namespace="ray-tool-example")
    try:
        await count(cluster, console)
    finally:
        await cluster.down()  # and a Ray that was started here with it; without this, it would outlive the script


def main() -> None:
    with tempfile.TemporaryDirectory() as data_dir:
        asyncio.run(work(data_dir, Console(highlight=False)))


if __name__ == "__main__":
    main()
