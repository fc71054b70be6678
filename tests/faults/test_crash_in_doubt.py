"""A process is killed in a call that must not happen twice, and a loop that approves everything goes on with the run.

The loop never publishes twice: a call in doubt waits for a person who says `Rerun` or `Happened`. That decision, too,
is taken once, wherever the process dies.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import Literal

import pytest

from agency import AgentSystem, Decision, Happened, LocalRuntime, Rerun, Thread, ToolContext, tool
from agency.store.store import ThreadStore
from agency.testing import Line, ScriptedModel, call
from middleware import hitl
from tests.support.crashes import in_a_process, killed_and_resumed

pytestmark = pytest.mark.kills

Side = Literal["before", "after"]


def build(folder: Path) -> AgentSystem:
    @tool(risk="high", idempotent=False, in_doubt="ask")
    async def publish(path: str, ctx: ToolContext) -> str:
        with (folder / "ledger").open("a") as ledger:
            ledger.write(f"{path}\n")
        if (folder / "hangs").exists():
            (folder / "hangs").unlink()
            await asyncio.Event().wait()
        return f"{path} is public"

    lines: list[Line] = [call("publish", path="/a.md", call_id="pub"), "done"]
    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(lines)}).use(hitl).add_tool(publish)
    return system.add_agent(name="editor", prompt="You publish.", tags=["default", "hitl"])


async def thread_of(runtime: LocalRuntime) -> Thread:
    known = "editor" in runtime.thread_ids()
    return await (runtime.thread("editor") if known else runtime.create_thread("editor", thread_id="editor"))


async def approve_everything(folder: Path) -> None:
    """A loop as people write it: approve whatever waits, until nothing more comes of it."""
    async with LocalRuntime(build(folder), folder / "threads") as runtime:
        thread = await thread_of(runtime)
        await thread.invoke("publish", idempotency_key="1")
        for _ in range(10):
            run = await thread.wait(20)
            if run.status != "paused" or (await thread.approve()).in_doubt:
                return


def ledger(folder: Path) -> list[str]:
    path = folder / "ledger"
    return path.read_text().splitlines() if path.exists() else []


def doubt(folder: Path) -> None:
    """Publish, and lose the process in it, by a real kill."""
    (folder / "hangs").touch()

    async def until_it_hangs() -> None:
        loop = asyncio.create_task(approve_everything(folder))
        while (folder / "hangs").exists() and not loop.done():
            await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_process(lambda: asyncio.run(until_it_hangs())) == -9
    assert ledger(folder) == ["/a.md"]


def test_a_loop_that_approves_everything_does_not_publish_twice(tmp_path: Path) -> None:
    doubt(tmp_path)
    for _ in range(2):
        assert in_a_process(lambda: asyncio.run(approve_everything(tmp_path))) == 0
    assert ledger(tmp_path) == ["/a.md"]

    async def left() -> None:
        async with LocalRuntime(build(tmp_path), tmp_path / "threads") as runtime:
            thread = await thread_of(runtime)
            (waiting,) = (await thread.wait(20)).meta.pending_tool_calls
            assert (waiting.kind, waiting.name) == ("in_doubt", "publish")
            assert (await thread.approve()).in_doubt == ("pub",)
            await thread.decide({waiting.approval_id: Happened("it is public")})
            assert (await thread.wait(20)).data == "done"

    assert in_a_process(lambda: asyncio.run(left())) == 0
    assert ledger(tmp_path) == ["/a.md"]


@pytest.mark.parametrize("decision", [Rerun(), Happened({"public": True})], ids=lambda each: each.decision)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_decision_on_a_doubt_counts_once_wherever_the_process_dies(
    decision: Decision, when: Side, tmp_path: Path
) -> None:
    async def operate(folder: Path) -> None:
        async with LocalRuntime(build(folder), folder / "threads") as runtime:
            thread = await thread_of(runtime)
            run = await thread.wait(20)
            while run.status == "paused":
                (waiting,) = run.meta.pending_tool_calls
                assert waiting.kind == "in_doubt"
                await thread.decide({waiting.approval_id: decision})
                run = await thread.wait(20)
            assert run.data == "done"

    async def decide(folder: Path) -> None:
        if not (folder / "ledger").exists():
            shutil.copytree(tmp_path / "doubt", folder, dirs_exist_ok=True)
        await operate(folder)

    for folder in (tmp_path / "doubt", tmp_path / "runs"):
        folder.mkdir()
    doubt(tmp_path / "doubt")
    for folder in killed_and_resumed(tmp_path / "runs", when, decide, least=1):
        store = ThreadStore.open(folder / "threads" / "editor.db")
        messages = [message for message in store.messages() if message.role == "tool"]
        store.close()
        published = len(ledger(folder))
        if isinstance(decision, Happened):
            assert (published, [m.content for m in messages]) == (1, ['{"public":true}'])
        else:  # a kill in the call that runs again is a doubt again, and again a person says to run it
            assert published in (2, 3)
            assert [m.content for m in messages] == ["/a.md is public"]
