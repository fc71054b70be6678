"""A run whose tool, hook or model provider has held up the event loop is warned, once the code returns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agency import (
    AgentSystem,
    EventType,
    HookContext,
    Middleware,
    ModelReply,
    ModelRequest,
    OnDelta,
    Plan,
    ToolError,
    open_thread,
)
from agency.thread.doing import DOING

SECONDS = 7.5


def hold_up() -> None:
    """What a host's watchdog says of the code that runs, from its own OS thread."""
    if (doing := DOING.get()) is not None:
        doing.blocks(SECONDS)


class SlowModel:
    def __init__(self, *, slow: bool) -> None:
        self.slow = slow

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        if self.slow:
            hold_up()
        return ModelReply(text="done", stop="stop")


class SlowHook(Middleware):
    name = "slow"

    async def before_model(self, ctx: HookContext, plan: Plan) -> None:
        hold_up()


async def good() -> str:
    """Hold up the loop, and work."""
    hold_up()
    return "fine"


async def bad() -> str:
    """Hold up the loop, and fail."""
    hold_up()
    raise ToolError("no")


async def quick() -> str:
    """Hold up nothing."""
    return "fine"


def with_tools() -> AgentSystem:
    return AgentSystem("demo:instant").add_tool(good).add_tool(bad).add_tool(quick)


@pytest.mark.parametrize(
    ("system", "message", "kind", "what"),
    [
        (with_tools(), f"call good {json.dumps({})}", "tool_blocks_loop", "tool good"),
        (with_tools(), f"call bad {json.dumps({})}", "tool_blocks_loop", "tool bad"),
        (with_tools(), f"call quick {json.dumps({})}", None, ""),
        (
            AgentSystem("demo:instant").use(SlowHook(), tags=["default"]),
            "hello",
            "hook_blocks_loop",
            "hook before_model of middleware slow",
        ),
        (
            AgentSystem("own:slow", providers={"own": SlowModel(slow=True)}),
            "hello",
            "model_blocks_loop",
            "the provider of own:slow",
        ),
        (AgentSystem("own:quick", providers={"own": SlowModel(slow=False)}), "hello", None, ""),
    ],
)
async def test_a_run_is_warned_of_its_code_that_held_up_the_loop(
    tmp_path: Path, system: AgentSystem, message: str, kind: str | None, what: str
) -> None:
    system.add_agent(name="clerk", description="-", prompt="-", tags=["default"])
    async with open_thread(system, tmp_path / "a.db", agent="clerk") as thread:
        await thread.invoke(message)
        run = await thread.wait(20)
        events = [event async for event in thread.events(follow=False)]
    told = [event.data["kind"] for event in events if event.type == EventType.RUNTIME_WARNING]
    assert run.status == "completed"
    assert told == [warning.kind for warning in run.meta.warnings]
    assert set(told) == ({kind} if kind else set())
    for warning in run.meta.warnings:
        assert warning.message.startswith(
            f"{what} held up the event loop of its process, and every thread in it, for {SECONDS} seconds: "
        )
    assert DOING.get() is None


async def test_a_thread_can_be_warned_by_its_host_while_that_run_is_in_progress(tmp_path: Path) -> None:
    system = AgentSystem("own:quick", providers={"own": SlowModel(slow=False)})
    system.add_agent(name="clerk", description="-", prompt="-")
    async with open_thread(system, tmp_path / "a.db", agent="clerk") as thread:
        thread.warn("", "tool_blocks_loop", "before any run")
        accepted = await thread.invoke("hello")
        thread.warn("another.1", "tool_blocks_loop", "of another run")
        thread.warn(accepted.run_id, "tool_blocks_loop", "of this run")
        run = await thread.wait(20)
        thread.warn(accepted.run_id, "tool_blocks_loop", "too late")
    assert [warning.message for warning in run.meta.warnings] == ["of this run"]
