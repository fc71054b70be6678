"""The process is killed before and after every commit of a run in which a small model makes the thread's title."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from agency import AgentSystem, EventType, LocalRuntime, ModelReply, ModelRequest, Usage
from agency.store.peek import glance
from agency.testing import Line, ScriptedModel
from middleware import title
from tests.support.crashes import killed_and_resumed

LEDGER = "asked.txt"


def build(folder: Path) -> AgentSystem:
    def small(request: ModelRequest) -> Line:
        with (folder / LEDGER).open("a") as ledger:
            ledger.write("asked\n")
        return ModelReply(text="Rolls for Monday", stop="stop", usage=Usage(input=100))

    models = {"big": ScriptedModel(lambda request: "With pleasure."), "small": ScriptedModel(small)}
    config = {"title": {"model": "small:any"}}
    system = AgentSystem("big:any", providers=models).use(title)
    return system.add_agent(name="clerk", description="d", prompt="p", tags=["title"], config=config)


async def operate(folder: Path) -> None:
    async with LocalRuntime(build(folder), folder) as runtime:
        known = "clerk" in runtime.thread_ids()
        thread = await (runtime.thread("clerk") if known else runtime.create_thread("clerk", thread_id="clerk"))
        await thread.invoke("Please bake ten rolls.", idempotency_key="1")
        assert (await thread.wait(20)).data == "With pleasure."


async def look(folder: Path) -> list[EventType]:
    async with LocalRuntime(build(folder), folder) as runtime:
        return [event.type async for event in (await runtime.thread("clerk")).events(follow=False)]


@pytest.mark.kills
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_commit_leaves_one_title_which_is_paid_once(
    when: Literal["before", "after"], tmp_path: Path
) -> None:
    for folder in killed_and_resumed(tmp_path, when, operate, least=3):
        assert glance(folder / "clerk.db").title == "Rolls for Monday", folder.name
        assert asyncio.run(look(folder)).count(EventType.MODEL_ASKED) == 1, folder.name
        asked = (folder / LEDGER).read_text().splitlines()
        assert len(asked) <= 2, folder.name  # only the call that was under way is made again
