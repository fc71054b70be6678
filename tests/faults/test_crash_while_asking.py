"""The process is killed before and after every commit of a run whose tool and hook ask models aside."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from agency import (
    AgentSystem,
    EventType,
    HookContext,
    LocalRuntime,
    Middleware,
    ModelReply,
    ModelRequest,
    Plan,
    Price,
    ToolContext,
    Usage,
    tool,
)
from agency.testing import Line, ScriptedModel, call
from tests.support.crashes import killed_and_resumed
from tests.support.thread_files import messages_of

OWN, ASIDE = Usage(input=10, output=5), Usage(input=100)
LEDGER = "asked.txt"


class Summary(Middleware[None]):
    name = "summary"

    async def before_model(self, ctx: HookContext[None], plan: Plan) -> None:
        plan.add_prompt((await ctx.ask_model("Sum it up.")).text)


@tool
async def consult(ctx: ToolContext) -> str:
    """Ask twice, one after the other."""
    first = await ctx.ask_model("Which colour?")
    second = await ctx.ask_model(f"Is {first.text} a colour?")
    return f"{first.text}: {second.text}"


def build(folder: Path) -> AgentSystem:
    def line(request: ModelRequest) -> Line:
        if request.system.startswith("You are a clerk."):
            return "done" if request.messages[-1].role == "tool" else call("consult", call_id="c1")
        question = request.messages[-1].content
        with (folder / LEDGER).open("a") as ledger:
            ledger.write(f"{question}\n")
        count = (folder / LEDGER).read_text().count(question)
        return ModelReply(text=f"answer {count}", stop="stop", usage=ASIDE)

    model = ScriptedModel(line, price=Price(input=1.0, output=1.0))
    system = AgentSystem("scripted:any", providers={"scripted": model}).add_tool(consult)
    system.use(Summary(), tags=["default"])
    return system.add_agent(name="clerk", description="d", prompt="You are a clerk.")


async def operate(folder: Path) -> None:
    async with LocalRuntime(build(folder), folder) as runtime:
        known = "clerk" in runtime.thread_ids()
        thread = await (runtime.thread("clerk") if known else runtime.create_thread("clerk", thread_id="clerk"))
        await thread.invoke("Which colour?", idempotency_key="1")
        assert (await thread.wait(20)).data == "done"


async def look(folder: Path) -> tuple[Usage, list[EventType]]:
    async with LocalRuntime(build(folder), folder) as runtime:
        thread = await runtime.thread("clerk")
        return thread.run().meta.tokens_used, [event.type async for event in thread.events(follow=False)]


@pytest.mark.kills
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_commit_loses_no_answer_and_charges_each_once(
    when: Literal["before", "after"], tmp_path: Path
) -> None:
    for folder in killed_and_resumed(tmp_path, when, operate, least=8):
        used, kinds = asyncio.run(look(folder))
        assert kinds.count(EventType.MODEL_ASKED) == 4
        assert used.input == 4 * ASIDE.input + 2 * OWN.input, folder.name
        asked = (folder / LEDGER).read_text().splitlines()
        assert len(asked) <= 5, folder.name  # only the call that was under way is made again
        if when == "after":
            assert len(asked) == 4, folder.name  # its answer was on disk
        said = [message.content for message in messages_of(folder / "clerk.db") if message.role == "tool"]
        assert said[0].startswith("answer")
