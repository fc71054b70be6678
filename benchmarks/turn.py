"""How fast, how flat and how small a durable run is.

    python -m benchmarks.turn [--json]

A round trip is one model step and one tool step, each committed to disk, with a model that answers at once. The same
rows are then written by plain sqlite3, in the same transactions, in the same process: what is left is our own work.
Times are the best of several rounds, taken in turns: what a noisy machine adds is not ours. `--json` prints one object
as the last line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from agency import AgentSystem, Limits, LocalRuntime, ModelReply, ModelRequest, Thread, ToolCall, Usage, tool
from agency.models.interface import OnDelta
from agency.store.draft import Statement
from agency.store.store import ThreadStore


@tool(safe=True)
async def look_up(order: str) -> dict[str, object]:
    """Look up an order."""
    return {"order": order, "status": "shipped", "items": [{"sku": "A-1", "count": 2}, {"sku": "B-7", "count": 1}]}


class InstantModel:
    """Calls one tool until the conversation has had as many replies as the model's name says, then answers."""

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        turn = len(request.messages) // 2  # one message opens the run, each round trip adds two
        return self.reply(turn, done=turn >= int(request.model))

    def reply(self, turn: int, *, done: bool) -> ModelReply:
        usage = Usage(input=1_000, output=30)
        if done:
            return ModelReply(text="All orders are on their way.", stop="stop", usage=usage)
        call = ToolCall(id=f"call_{turn}", name="look_up", args={"order": f"ORD-{turn:05}"})
        return ModelReply(text=f"Looking at order {turn}.", tool_calls=(call,), stop="tool_use", usage=usage)


def build(model: InstantModel, trips: int, *, stock: bool = False) -> AgentSystem:
    system = AgentSystem(f"instant:{trips}", providers={"instant": model}).add_tool(look_up)
    if stock:
        system.defaults()
    return system.add_agent(
        name="clerk", description="Looks up orders.", prompt="You look up orders.", limits=Limits(turns=None)
    )


async def finish(thread: Thread) -> None:
    await thread.invoke("Where are my orders?")
    result = await thread.wait()
    assert result.status == "completed", result


async def one_thread(folder: Path, trips: int, *, stock: bool = False) -> float:
    """Milliseconds per round trip of one run."""
    async with LocalRuntime(build(InstantModel(), trips, stock=stock), folder) as runtime:
        thread = await runtime.create_thread("clerk")
        began = time.perf_counter()
        await finish(thread)
        return (time.perf_counter() - began) * 1000 / trips


async def many_threads(folder: Path, threads: int, trips: int) -> float:
    """Round trips per second over all threads."""
    async with LocalRuntime(build(InstantModel(), trips), folder) as runtime:
        awake = [await runtime.create_thread("clerk") for _ in range(threads)]
        began = time.perf_counter()
        await asyncio.gather(*(finish(thread) for thread in awake))
        return threads * trips / (time.perf_counter() - began)


class CountingModel(InstantModel):
    """Calls the tool as often as it was told to, however long the conversation is."""

    left = 0

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        self.left -= 1
        return self.reply(len(request.messages) // 2, done=self.left < 0)


async def growth(folder: Path, pairs: int) -> float:
    """The time of 20 steps after step 1,000 of a thread against that of the first 20, taken in turns."""
    model = CountingModel()
    async with LocalRuntime(build(model, 0), folder) as runtime:

        async def steps(thread: Thread, count: int) -> float:
            model.left, began = count, time.perf_counter()
            await finish(thread)
            return time.perf_counter() - began

        old = await runtime.create_thread("clerk")
        await steps(old, 1_000)
        late, early = [], []
        for _ in range(pairs):
            late.append(await steps(old, 20))
            early.append(await steps(await runtime.create_thread("clerk"), 20))
    return usual(late) / usual(early)


def usual(times: Sequence[float]) -> float:
    """The lower quartile: what they take when nothing disturbs them."""
    return statistics.quantiles(times, n=4)[0]


def disk_bytes(folder: Path) -> int:
    """What a run with 50 calls leaves on disk."""
    asyncio.run(one_thread(folder, 50))
    return sum(path.stat().st_size for path in folder.iterdir())


class Transactions:
    """Every transaction that a run commits, as plain SQL and values."""

    def __init__(self, store: ThreadStore) -> None:
        self.path = store.path
        self.committed: list[Sequence[Statement]] = []
        self._write = store._write
        store._write = self._note  # type: ignore[method-assign]  # a benchmark may look inside

    def _note(self, statements: Sequence[Statement]) -> None:
        self.committed.append(statements)
        self._write(statements)


async def record(folder: Path, trips: int) -> Transactions:
    async with LocalRuntime(build(InstantModel(), trips), folder) as runtime:
        thread = await runtime.create_thread("clerk")
        transactions = Transactions(thread._store)
        await finish(thread)
        return transactions


def bare_commits(recorded: Transactions, folder: Path, trips: int) -> float:
    """Milliseconds per round trip for the same rows, written by sqlite3 and nothing else."""
    folder.mkdir()
    ThreadStore.open(folder / "bare.db", create={"thread_id": "bare"}).close()
    db = sqlite3.connect(folder / "bare.db", isolation_level=None, cached_statements=256)
    db.execute("PRAGMA synchronous = NORMAL")
    began = time.perf_counter()
    for statements in recorded.committed:
        db.execute("BEGIN IMMEDIATE")
        for sql, params in statements:
            db.execute(sql, params)
        db.execute("COMMIT")
    took = time.perf_counter() - began
    db.close()
    return took * 1000 / trips


def measure(folder: Path) -> dict[str, float]:
    trips, rounds = 100, 40
    recorded = asyncio.run(record(folder / "recorded", trips))
    ours, stock, bare = [], [], []
    for i in range(rounds):
        ours.append(asyncio.run(one_thread(folder / f"one{i}", trips)))
        stock.append(asyncio.run(one_thread(folder / f"stock{i}", trips, stock=True)))
        bare.append(bare_commits(recorded, folder / f"bare{i}", trips))
    return {
        "round_trip_ms": round(min(ours), 3),
        "round_trip_stock_ms": round(min(stock), 3),
        "bare_commits_ms": round(min(bare), 3),
        "round_trips_per_s_200": round(max(asyncio.run(many_threads(folder / f"many{i}", 200, 25)) for i in range(3))),
        "growth_ratio": round(asyncio.run(growth(folder / "long", 60)), 3),
        "disk_bytes_per_run": disk_bytes(folder / "disk"),
    }


def report(figures: dict[str, float]) -> str:
    ratio = figures["round_trip_ms"] / figures["bare_commits_ms"]
    return (
        f"a durable round trip            {figures['round_trip_ms']:.3f} ms\n"
        f"  with the stock middleware     {figures['round_trip_stock_ms']:.3f} ms\n"
        f"  its rows by plain sqlite3     {figures['bare_commits_ms']:.3f} ms ({ratio:.1f} times less)\n"
        f"round trips with 200 threads    {figures['round_trips_per_s_200']:.0f} a second\n"
        f"late steps against early ones   {figures['growth_ratio']:.2f} times\n"
        f"a run with 50 calls on disk     {figures['disk_bytes_per_run'] / 1000:.0f} kB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder))
    print(report(figures))
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
