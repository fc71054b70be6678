"""Agents in code mode: code runs, its calls are recorded, and a crash repeats no call that had ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import JsonValue

from agency import AgentSystem, CallTool, CodeResult, EventType, LocalRuntime, Thread, Tool, tool
from agency.testing import ScriptedModel, call

PATIENCE = 10.0
CODE = "```python\nfetch('a')\n```"


class Interpreter:
    """Runs 'code' that is really a Python function of the test."""

    def __init__(self, function: Callable[[str, JsonValue, CallTool], object]) -> None:
        self._function = function

    async def run(self, code: str, state: JsonValue, call_tool: CallTool) -> CodeResult:
        result = await self._function(code, state, call_tool)  # type: ignore[misc]  # all of them are async
        assert isinstance(result, CodeResult)
        return result


def runtime_for(
    folder: Path, script: list[str], function: Callable[[str, JsonValue, CallTool], object], *tools: Tool
) -> LocalRuntime:
    system = AgentSystem(
        "scripted:any", providers={"scripted": ScriptedModel(script)}, code_runner=Interpreter(function)
    )
    for each in tools:
        system.add_tool(each)
    system.add_agent(name="coder", description="Codes.", prompt="Write code.", mode="code")
    return LocalRuntime(system, folder)


async def started(thread: Thread, name: str) -> None:
    async with asyncio.timeout(PATIENCE):
        async for event in thread.events():
            if event.type == EventType.TOOL_STARTED and event.data["toolName"] == name:
                return


async def test_code_is_run_its_output_is_read_and_its_state_is_handed_on(tmp_path: Path) -> None:
    seen: list[tuple[str, JsonValue]] = []

    async def run(code: str, state: JsonValue, call_tool: CallTool) -> CodeResult:
        seen.append((code, state))
        return CodeResult(output=f"ran {len(seen)}", state={"step": len(seen)})

    async with runtime_for(tmp_path, [f"Look:\n{CODE}", CODE, "It is done."], run) as runtime:
        thread = await runtime.create_thread("coder")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).data == "It is done."
        assert seen == [("fetch('a')\n", None), ("fetch('a')\n", {"step": 1})]
        assert [m.content for m in (await thread.state()).messages if m.origin == "code"] == [
            "Output:\nran 1",
            "Output:\nran 2",
        ]


@pytest.mark.parametrize("ending", ["submitted", "error"])
async def test_code_can_end_the_run(tmp_path: Path, ending: str) -> None:
    async def run(code: str, state: JsonValue, call_tool: CallTool) -> CodeResult:
        return (
            CodeResult(output="", submitted=({"n": 7},)) if ending == "submitted" else CodeResult(output="", error="no")
        )

    async with runtime_for(tmp_path, [CODE], run) as runtime:
        thread = await runtime.create_thread("coder")
        await thread.invoke("go")
        result = await thread.wait(PATIENCE)
        expected = ("completed", {"n": 7}, []) if ending == "submitted" else ("error", None, ["ERR_SUBMITTED"])
        assert (result.status, result.data, [e.code for e in result.errors]) == expected


async def test_an_exception_in_the_code_is_output_for_the_model(tmp_path: Path) -> None:
    async def run(code: str, state: JsonValue, call_tool: CallTool) -> CodeResult:
        raise ZeroDivisionError("division by zero")

    async with runtime_for(tmp_path, [CODE, "I see."], run) as runtime:
        thread = await runtime.create_thread("coder")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).data == "I see."
        assert "ZeroDivisionError" in (await thread.state()).messages[2].content


async def test_after_a_crash_the_code_runs_again_and_calls_that_had_ended_do_not(tmp_path: Path) -> None:
    ran: list[str] = []
    outcomes: list[list[str]] = []

    @tool
    async def fetch(what: str) -> str:
        ran.append(what)
        return what.upper()

    @tool(idempotent=False)
    async def pay() -> str:
        ran.append("pay")
        await asyncio.Event().wait()
        return "paid"

    async def run(code: str, state: JsonValue, call_tool: CallTool) -> CodeResult:
        made = [await call_tool("fetch", {"what": "a"}), await call_tool("nobody", {}), await call_tool("pay", {})]
        outcomes.append([outcome.text for outcome in made])
        return CodeResult(output="done")

    async with runtime_for(tmp_path, [CODE, "The end."], run, fetch, pay) as runtime:
        thread = await runtime.create_thread("coder")
        await thread.invoke("go")
        await started(thread, "pay")
    async with runtime_for(tmp_path, [CODE, "The end."], run, fetch, pay) as runtime:
        thread = await runtime.thread(thread.id)
        assert (await thread.wait(PATIENCE)).data == "The end."
        assert ran == ["a", "pay"]
        fetched, unknown, paid = outcomes[0]
        assert fetched == "A"
        assert "no tool is named 'nobody'" in unknown
        assert "may or may not have taken effect" in paid
        begun = [e.data["callId"] async for e in thread.events(follow=False) if e.type == EventType.TOOL_STARTED]
        assert len(begun) == len(set(begun)) == 3


async def test_a_tool_that_waits_for_a_child_cannot_be_called_from_code(tmp_path: Path) -> None:
    async def run(code: str, state: JsonValue, call_tool: CallTool) -> CodeResult:
        return CodeResult(output=(await call_tool("task", {"description": "x", "subagentType": "other"})).text)

    system = AgentSystem(
        "scripted:any", providers={"scripted": ScriptedModel([CODE, "ok"])}, code_runner=Interpreter(run)
    ).defaults()
    system.add_agent(name="coder", description="Codes.", prompt="Write code.", mode="code")
    system.add_agent(name="other", description="d", prompt="p")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("coder")
        await thread.invoke("go")
        await thread.wait(PATIENCE)
        assert "code cannot wait for this tool" in (await thread.state()).messages[2].content
        assert runtime.thread_ids() == [thread.id]


async def test_tool_calls_of_the_model_itself_work_in_code_mode_too(tmp_path: Path) -> None:
    @tool
    async def fetch(what: str) -> str:
        return what.upper()

    async def run(code: str, state: JsonValue, call_tool: CallTool) -> CodeResult:
        raise AssertionError("there is no code")

    runtime = runtime_for(tmp_path, [call("fetch", what="a"), "ok"], run, fetch)  # type: ignore[list-item]  # a call
    async with runtime:
        thread = await runtime.create_thread("coder")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).data == "ok"


async def test_a_call_of_code_that_runs_once_more_after_a_crash_is_told_of(tmp_path: Path) -> None:
    ran: list[str] = []

    @tool
    async def slow() -> str:
        ran.append("slow")
        if len(ran) == 1:
            await asyncio.Event().wait()
        return "at last"

    async def run(code: str, state: JsonValue, call_tool: CallTool) -> CodeResult:
        return CodeResult(output=(await call_tool("slow", {})).text)

    async with runtime_for(tmp_path, [CODE, "The end."], run, slow) as runtime:
        thread = await runtime.create_thread("coder")
        await thread.invoke("go")
        await started(thread, "slow")
    async with runtime_for(tmp_path, [CODE, "The end."], run, slow) as runtime:
        thread = await runtime.thread(thread.id)
        assert (await thread.wait(PATIENCE)).data == "The end."
        told = [event async for event in thread.events(follow=False)]
        (recovered,) = [event for event in told if event.type == EventType.RUN_RECOVERED]
        (again,) = [event for event in told if event.type == EventType.TOOL_RETRIED]
        assert (recovered.data["doing"], again.data["attempt"], again.data["why"]) == ("code", 2, "stopped")
