"""A copy of a thread's files, taken at any moment while it is being written, opens and goes on to the same end."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agency import AgentSystem, Message, ModelRequest, open_thread, tool
from agency.store.peek import holds_thread
from agency.testing import Line, ScriptedModel, call

STEPS = 400
COPIES = 25


@tool
async def count(number: int) -> str:
    return f"{number} " + "x" * 300


def script(request: ModelRequest) -> Line:
    step = sum(message.role == "assistant" for message in request.messages)
    return call("count", number=step, call_id=f"c{step}") if step < STEPS else "counted"


def build() -> AgentSystem:
    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)}).add_tool(count)
    return system.add_agent(name="counter", description="Counts.", prompt="Count.", limits={"turns": None})


async def run(path: Path) -> list[Message]:
    async with open_thread(build(), path, agent="counter") as thread:
        if thread.run_state().status == "registered":
            await thread.invoke("count")
        result = await thread.wait(60)
        assert result.data == "counted", result
        events = [event.seq async for event in thread.events(follow=False)]
        assert events == list(range(1, len(events) + 1))
        return list((await thread.state()).messages)


def copy(path: Path, to: Path) -> None:
    for suffix in ("", "-wal"):
        source = Path(f"{path}{suffix}")
        if source.exists():
            shutil.copy(source, f"{to}{suffix}")


def wait_for_thread(path: Path, writer: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Return once the thread is there and has begun to work."""
    for _ in range(10_000):
        wal = Path(f"{path}-wal")
        if wal.exists() and wal.stat().st_size > 100_000:
            return
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(0.002)
    raise AssertionError("it does not begin")


@pytest.mark.timeout(300)
def test_a_copy_taken_at_a_random_moment_opens_and_goes_on(tmp_path: Path) -> None:
    expected = asyncio.run(run(tmp_path / "undisturbed.db"))
    moment = random.Random(7)
    path = tmp_path / "running.db"
    program = f"import asyncio, runpy; m = runpy.run_path({__file__!r}); from pathlib import Path; "
    writer = subprocess.Popen([sys.executable, "-c", f"{program}asyncio.run(m['run'](Path({str(path)!r})))"])
    copies: list[Path] = []
    try:
        wait_for_thread(path, writer)
        for number in range(COPIES):
            try:
                writer.wait(moment.uniform(0.0, 0.008))
            except subprocess.TimeoutExpired:
                os.kill(writer.pid, signal.SIGSTOP)  # in the middle of whatever it is doing
                copies.append(tmp_path / f"copy{number}.db")
                copy(path, copies[-1])
                os.kill(writer.pid, signal.SIGCONT)
        assert writer.wait(60) == 0
    finally:
        writer.kill()
        writer.wait()
    opened = 0
    for each in copies:
        if holds_thread(each):
            assert asyncio.run(run(each)) == expected
            opened += 1
    assert opened > 10


@pytest.mark.timeout(120)
def test_a_second_process_takes_a_thread_over_and_the_first_cannot_write(tmp_path: Path) -> None:
    expected = asyncio.run(run(tmp_path / "undisturbed.db"))
    path = tmp_path / "contested.db"
    program = f"import asyncio, runpy; m = runpy.run_path({__file__!r}); from pathlib import Path; "
    first = subprocess.Popen(
        [sys.executable, "-c", f"{program}asyncio.run(m['run'](Path({str(path)!r})))"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for_thread(path, first)
        assert asyncio.run(run(path)) == expected
        _, complaint = first.communicate(timeout=60)
        assert first.returncode != 0
        assert "StaleActivation" in complaint
    finally:
        first.kill()
        first.wait()
