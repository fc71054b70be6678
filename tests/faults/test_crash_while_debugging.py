"""A kill at every commit leaves what people debug with as it would have been: no traceback and no request is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from agency import AgentSystem, EventType, HookContext, LocalRuntime, Middleware, ModelRequest, Plan, ToolContext, tool
from agency.testing import Line, ScriptedModel, call
from tests.support.crashes import killed_and_resumed

pytestmark = pytest.mark.kills
PATIENCE = 20.0


@tool
async def stumble(what: str) -> str:
    """Raise."""
    raise LookupError(f"no {what}")


@tool
async def consult(ctx: ToolContext) -> str:
    """Ask aside."""
    return (await ctx.ask_model("the sky?", system="Be brief.")).text


class Counting(Middleware):
    """Has another prompt in every turn."""

    name = "counting"
    tags = ("default",)

    async def before_model(self, ctx: HookContext, plan: Plan) -> None:
        plan.add_prompt(f"{plan.messages} messages")


def script(request: ModelRequest) -> Line:
    if request.system == "Be brief.":
        return "blue"
    step = sum(message.role == "assistant" for message in request.messages)
    lines: list[Line] = [
        [call("stumble", what="left", call_id="c1"), call("stumble", what="right", call_id="c2")],
        call("consult", call_id="c3"),
        "done",
    ]
    return lines[step]


def runtime(folder: Path) -> LocalRuntime:
    system = (
        AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)})
        .use(Counting())
        .add_tool(stumble)
        .add_tool(consult)
        .add_agent(name="clerk", description="Works.", prompt="You work.")
    )
    return LocalRuntime(system, folder)


async def operate(folder: Path) -> None:
    async with runtime(folder) as here:
        thread = (
            await here.thread("t") if "t" in here.thread_ids() else await here.create_thread("clerk", thread_id="t")
        )
        await thread.invoke("go", idempotency_key="go")
        assert (await thread.wait(PATIENCE)).status == "completed"


@pytest.mark.parametrize("when", ["before", "after"])
async def test_traces_and_requests_survive_a_kill_at_every_commit(
    tmp_path: Path, when: Literal["before", "after"]
) -> None:
    seen = 0
    for folder in killed_and_resumed(tmp_path, when, operate, least=6):
        async with runtime(folder) as here:
            thread = await here.thread("t")
            assert [(each.call_id, each.kind) for each in await thread.traces()] == [("c1", "tool"), ("c2", "tool")]
            assert all("LookupError" in each.traceback for each in await thread.traces())
            found = [await thread.model_call(each.seq) for each in await thread.model_calls()]
            assert [(each.by, each.status) for each in found] == [
                (None, "success"),
                (None, "success"),
                ("consult", "success"),
                (None, "success"),
            ]
            own = [each.request for each in found if each.by is None and each.request is not None]
            assert [request.prompt[-1].text for request in own] == ["1 messages", "4 messages", "6 messages"]
            assert [len(request.messages) for request in own] == [1, 4, 6]
            for event in [each async for each in thread.events(follow=False) if each.type == EventType.MODEL_RETRIED]:
                assert (await thread.model_call(event.seq or 0)).attempts == event.data["attempt"] == 2
        seen += 1
    assert seen
