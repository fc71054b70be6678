"""The process is killed before and after every commit of a run whose middleware opens late, and whose tool has a
secret."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Literal

import pytest

from agency import AgentSystem, HookContext, LocalRuntime, Middleware, ToolContext, secret, tool
from agency.backoff import Backoff
from agency.testing import ScriptedModel, call
from agency.thread import openings
from tests.support.crashes import in_a_process, killed_at
from tests.support.thread_files import kept, messages_of

VALUE = "planted-in-a-crash-4711"


@tool(secrets={"key": secret("env:CRASH_KEY")})
async def leak(ctx: ToolContext) -> str:
    """Say it."""
    ctx.store.put("leak", "value", ctx.secret("key"))
    return f"it is {ctx.secret('key')}"


class Late(Middleware):
    """Opens when it is tried for the second time."""

    name = "late"
    tags = ("default",)
    secrets = {"key": secret("env:CRASH_KEY")}
    attempts = 0

    async def on_thread_open(self, ctx: HookContext) -> None:
        self.attempts += 1
        ctx.store.put("late", "opened", ctx.secret("key"))
        if self.attempts == 1:
            raise ConnectionError(f"away: {ctx.secret('key')}")
        ctx.register_tool(leak)


async def operate(folder: Path) -> None:
    model = ScriptedModel([call("leak", call_id="c1"), "done"])
    system = AgentSystem("scripted:any", providers={"scripted": model}).use(Late())
    system.add_agent(name="clerk", description="d", prompt="You are a clerk.")
    async with LocalRuntime(system, folder) as runtime:
        known = "clerk" in runtime.thread_ids()
        thread = await (runtime.thread("clerk") if known else runtime.create_thread("clerk", thread_id="clerk"))
        await thread.invoke("Say it.", idempotency_key="1")
        assert (await thread.wait(20)).data == "done"


@pytest.mark.kills
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_commit_leaves_no_value_and_the_tools_come_back(
    when: Literal["before", "after"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openings, "AGAIN", Backoff(0.0, 0.0))
    monkeypatch.setenv("CRASH_KEY", VALUE)
    killed = 0
    for n in range(1, 60):
        folder = tmp_path / str(n)
        folder.mkdir()
        status = killed_at(n, when, lambda folder=folder: asyncio.run(operate(folder)))  # type: ignore[misc]  # bound now
        assert VALUE.encode() not in b"".join(path.read_bytes() for path in folder.iterdir())
        assert in_a_process(lambda folder=folder: asyncio.run(operate(folder))) == 0, n  # type: ignore[misc]  # bound now
        (path,) = folder.glob("*.db")
        (said,) = [message.content for message in messages_of(path) if message.role == "tool"]
        # A call that the crash cut off runs again when the thread is opened, which fails at first here.
        assert said == "it is [redacted]" or "ConnectionError: away: [redacted]" in said, n
        assert kept(path, "late") == {"opened": "[redacted]"}
        assert VALUE.encode() not in path.read_bytes()
        if status == 0:
            break
        assert status == -signal.SIGKILL
        killed += 1
    assert killed > 4
