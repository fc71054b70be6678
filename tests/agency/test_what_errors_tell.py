"""What a fault of the server says where callers and models read it, and where those who run the server do."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from agency import AgentSystem, HookContext, LocalRuntime, Middleware, ModelRequest, Plan, StorageFull, Thread, tool
from agency.errors import Damaged, InvalidInput, told_of
from agency.testing import Line, ScriptedModel, call
from middleware import subagents

PLACE = "/srv/agency/data"


@tool
async def bake() -> str:
    """Bake a loaf."""
    raise StorageFull(f"cannot write {PLACE}/shelves.db: database or disk is full")


class Clerk(Middleware[None]):
    """Fails where the server has no room."""

    name = "clerk"

    async def before_model(self, ctx: HookContext[None], plan: Plan) -> None:
        raise StorageFull(f"cannot write {PLACE}/notes.db: database or disk is full")


class Landlord(Middleware[None]):
    """Keeps children of its kind from starting."""

    name = "landlord"

    async def on_init(self, ctx: HookContext[None]) -> None:
        if ctx.thread.parent is not None:
            raise Damaged(f"{PLACE}/leases.db is damaged")


def the_system(*lines: Line) -> AgentSystem:
    said = iter(lines)
    model = ScriptedModel(lambda request: next(said))
    return AgentSystem("scripted:any", providers={"scripted": model})


async def everything(thread: Thread) -> str:
    """What viewers read of a thread."""
    state, run = await thread.state(), thread.run()
    events = [event.model_dump_json() for event in thread.reader(0).take(1_000)]
    return "\n".join([*events, state.model_dump_json(), run.model_dump_json()])


def test_an_error_says_what_it_tells_or_all_of_it() -> None:
    assert told_of(StorageFull(PLACE)) == StorageFull.told
    assert told_of(InvalidInput("no such agent")) == "no such agent"
    assert told_of(ValueError("no grain")) == "no grain"


async def test_a_tools_error_has_its_path_in_the_traceback_and_nowhere_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    requests: list[ModelRequest] = []

    def say(request: ModelRequest) -> Line:
        requests.append(request)
        return [call("bake")] if len(requests) == 1 else "done"

    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(say)}).add_tool(bake)
    system.add_agent(name="baker", description="Bakes.", prompt="Bake.")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("baker")
        await thread.invoke("bake")
        assert (await thread.wait(timeout=10)).data == "done"
        told = await everything(thread)
        assert PLACE not in told and "disk or quota is full" in told
        assert PLACE not in str(requests[-1].messages)
        assert PLACE in (await thread.traces())[0].traceback
    assert PLACE in caplog.text


async def test_a_run_that_ends_by_a_hook_says_no_path(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    system = (
        the_system("done").use(Clerk(), tags=["default"]).add_agent(name="baker", description="Bakes.", prompt="Bake.")
    )
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("baker")
        await thread.invoke("bake")
        run = await thread.wait(timeout=10)
        assert (run.status, run.errors[0].code) == ("error", "ERR_HOOK")
        assert PLACE not in await everything(thread)
        assert "disk or quota is full" in run.errors[0].message
    assert PLACE in caplog.text


async def test_a_parent_whose_child_cannot_be_made_reads_no_path(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    system = the_system([call("task", description="bake", subagentType="baker")], "done").use(
        subagents, tags=["default"]
    )
    system.use(Landlord(), tags=["default"]).add_agent(name="baker", description="Bakes.", prompt="Bake.")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("baker")
        await thread.invoke("bake")
        assert (await thread.wait(timeout=10)).data == "done"
        told = await everything(thread)
        assert "is damaged" in told and PLACE not in told
    assert PLACE in caplog.text
