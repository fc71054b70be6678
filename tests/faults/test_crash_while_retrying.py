"""The process is killed before and after every commit of a run that fails, is tried again and succeeds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from agency import AgentSystem, EventType, LocalRuntime, ModelError, ModelRequest, ToolContext, tool
from agency.testing import Line, ScriptedModel, call
from tests.support.crashes import as_undisturbed, killed_and_resumed

PATIENCE = 10.0


def build(folder: Path) -> AgentSystem:
    @tool
    async def note(ctx: ToolContext) -> str:
        """Note."""
        with (folder / "ledger").open("a") as ledger:
            ledger.write(f"{ctx.idempotency_key}\n")
        return "noted"

    def line(request: ModelRequest) -> Line:
        if request.messages[-1].role != "tool":
            return call("note", call_id="n")
        return "done" if (folder / "mended").exists() else ModelError("no credit", model_code="ERR_AUTH")

    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(line)}).add_tool(note)
    return system.add_agent(name="clerk", description="d", prompt="p")


async def operate(folder: Path) -> None:
    """What a patient person does: mend what is wrong, and try again."""
    async with LocalRuntime(build(folder), folder) as runtime:
        known = "clerk" in runtime.thread_ids()
        thread = await (runtime.thread("clerk") if known else runtime.create_thread("clerk", thread_id="clerk"))
        await thread.invoke("go", idempotency_key="1")
        run = await thread.wait(PATIENCE)
        if run.run_id == "clerk.1":
            assert run.status == "error", run
            (folder / "mended").touch()
            await thread.retry(idempotency_key="2")
            run = await thread.wait(PATIENCE)
        assert (run.run_id, run.data, run.meta.retry_of) == ("clerk.2", "done", "clerk.1")


async def look_at(folder: Path) -> tuple[list[str], list[EventType]]:
    async with LocalRuntime(build(folder), folder) as runtime:
        thread = await runtime.thread("clerk")
        told = as_undisturbed([event async for event in thread.events(follow=False)])
        return [message.content for message in (await thread.state()).messages], [event.type for event in told]


@pytest.mark.kills
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_commit_tries_once_again_and_keeps_what_was_done(
    when: Literal["before", "after"], tmp_path: Path
) -> None:
    stories = []
    for folder in killed_and_resumed(tmp_path, when, operate, least=5):
        said, kinds = asyncio.run(look_at(folder))
        assert said == ["go", "", "noted", "done"], folder.name
        assert len(set((folder / "ledger").read_text().split())) == 1, "one call, however often it was begun"
        stories.append(kinds)
    assert all(kinds == stories[-1] for kinds in stories), "but for recoveries, all is as without a crash"
