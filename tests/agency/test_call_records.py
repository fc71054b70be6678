"""Tool calls in events and whole: values where they were JSON, cut over a limit, and found by their ids."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue, SecretStr

from agency import AgentSystem, CallTool, CodeResult, Edit, EventType, LocalRuntime, NotFound, Thread, tool
from agency.testing import Line, ScriptedModel, call
from middleware import hitl

Build = Callable[..., tuple[LocalRuntime, ScriptedModel]]
PATIENCE = 10.0
LONG = "x" * 3_000


@tool(safe=True)
async def give(value: Any) -> object:
    return value


async def data_of(thread: Thread, kind: EventType) -> list[dict[str, JsonValue]]:
    return [dict(event.data) async for event in thread.events(follow=False) if event.type == kind]


async def run(runtime: LocalRuntime) -> Thread:
    thread = await runtime.create_thread("clerk")
    await thread.invoke("go")
    assert (await thread.wait(PATIENCE)).status == "completed"
    return thread


VALUES: list[JsonValue] = [{"a": [1, 2.5, None]}, [1], 7, True, "text", '{"written": "as text"}', ""]


async def test_outputs_and_arguments_are_the_values_that_they_were(build: Build) -> None:
    calls = [call("give", value=value, call_id=f"c{n}") for n, value in enumerate(VALUES)]
    runtime, _ = build([calls, "done"], give)
    async with runtime:
        thread = await run(runtime)
        started, ended = [await data_of(thread, kind) for kind in (EventType.TOOL_STARTED, EventType.TOOL_OUTPUT)]
        assert [data["args"] for data in started] == [{"value": value} for value in VALUES]
        assert [data["output"] for data in ended] == VALUES
        assert not any("truncated" in data for data in (*started, *ended))
        for n, value in enumerate(VALUES):
            whole = await thread.tool_call(f"c{n}")
            assert (whole.status, whole.args, whole.output, whole.error) == ("success", {"value": value}, value, None)


async def test_a_tool_that_returns_nothing_has_an_empty_result(build: Build) -> None:
    @tool
    async def quiet() -> None:
        """Say nothing."""

    runtime, model = build([call("quiet", call_id="c1"), "done"], quiet)
    async with runtime:
        thread = await run(runtime)
        assert [data["output"] for data in await data_of(thread, EventType.TOOL_OUTPUT)] == [""]
        assert model.requests[-1].messages[-1].content == ""
        assert (await thread.tool_call("c1")).output == ""


@pytest.mark.parametrize("value", [LONG, {"text": LONG}, list(range(2_000))], ids=["text", "object", "list"])
async def test_what_is_too_long_for_an_event_is_cut_there_and_whole_at_the_call(build: Build, value: JsonValue) -> None:
    runtime, _ = build([call("give", value=value, call_id="c1"), "done"], give)
    async with runtime:
        thread = await run(runtime)
        (started,) = await data_of(thread, EventType.TOOL_STARTED)
        (ended,) = await data_of(thread, EventType.TOOL_OUTPUT)
        assert (started["truncated"], ended["truncated"]) == (True, True)
        assert len(str(started["args"])) < 2_100
        assert len(str(ended["output"])) < 2_100
        whole = await thread.tool_call("c1")
        assert (whole.args, whole.output) == ({"value": value}, value)


async def test_long_arguments_stay_an_object_if_only_their_texts_are_long(build: Build) -> None:
    runtime, _ = build([call("give", value={"path": "/a.md", "content": LONG}, call_id="c1"), "done"], give)
    async with runtime:
        thread = await run(runtime)
        (started,) = await data_of(thread, EventType.TOOL_STARTED)
        assert isinstance(started["args"], dict)
        assert isinstance(value := started["args"]["value"], dict)
        assert value["path"] == "/a.md"


async def test_an_error_begins_with_the_word_and_is_whole_at_the_call(build: Build) -> None:
    @tool
    async def fail() -> None:
        raise ValueError(LONG)

    runtime, model = build([call("fail", call_id="c1"), "done"], fail)
    async with runtime:
        thread = await run(runtime)
        (ended,) = await data_of(thread, EventType.TOOL_ERROR)
        assert (str(ended["error"])[:7], ended["truncated"]) == ("Error: ", True)
        assert model.requests[-1].messages[-1].content.startswith("Error: ")
        whole = await thread.tool_call("c1")
        assert (whole.status, whole.output) == ("failure", None)
        assert whole.error is not None
        assert LONG in whole.error


async def test_of_calls_with_one_id_an_event_says_which(build: Build) -> None:
    runtime, _ = build([call("give", value=1, call_id="c"), call("give", value=2, call_id="c"), "done"], give)
    async with runtime:
        thread = await run(runtime)
        events = [event async for event in thread.events(follow=False) if event.data.get("callId") == "c"]
        assert [(await thread.tool_call("c", seq=event.seq)).output for event in events] == [1, 1, 2, 2]
        assert (await thread.tool_call("c")).output == 2
        for unknown in ("d", "", '"'):
            with pytest.raises(NotFound, match="has no call"):
                await thread.tool_call(unknown)


async def test_a_call_is_found_while_it_waits_and_runs_and_has_ended_before_its_batch(build: Build) -> None:
    began, let = asyncio.Event(), asyncio.Event()

    @tool
    async def hold() -> str:
        began.set()
        await let.wait()
        return "held"

    script: list[Line] = [
        [call("give", value=[1], call_id="a"), call("hold", call_id="b"), call("give", value=2, call_id="c")],
        "done",
    ]
    runtime, _ = build(script, give, hold)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await began.wait()
        found = [await thread.tool_call(each) for each in "abc"]
        assert [(each.status, each.output) for each in found] == [
            ("success", [1]),
            ("running", None),
            ("waiting", None),
        ]
        let.set()
        await thread.wait(PATIENCE)
        assert [(await thread.tool_call(each)).output for each in "abc"] == [[1], "held", 2]


async def test_people_see_no_secret_and_the_arguments_that_a_person_gave(build: Build) -> None:
    @tool
    async def pay(cents: int, password: SecretStr) -> dict[str, int]:
        return {"paid": cents}

    runtime, _ = build(
        [call("pay", cents=5, password="hunter22", call_id="c1"), "done"],
        pay,
        tags=["default", "hitl"],
        config={"hitl": {"tools": ["pay"]}},
    )
    runtime._system.use(hitl)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(PATIENCE)
        waiting = await thread.tool_call("c1")
        assert (waiting.status, waiting.args) == ("waiting", {"cents": 5, "password": "••••••"})
        (pending,) = (await thread.state()).pending_tool_calls
        assert (pending.id, pending.name) == ("c1", "pay")
        await thread.decide({"c1": Edit({"cents": 3, "password": "••••••"})})
        await thread.wait(PATIENCE)
        assert (await thread.state()).pending_tool_calls == ()
        paid = await thread.tool_call("c1")
        assert (paid.args, paid.output) == ({"cents": 3, "password": "••••••"}, {"paid": 3})
        assert [data["output"] for data in await data_of(thread, EventType.TOOL_OUTPUT)] == [{"paid": 3}]


async def test_the_calls_of_executed_code_are_found_too(tmp_path: Path) -> None:
    class Interpreter:
        async def run(self, code: str, state: JsonValue, call_tool: CallTool) -> CodeResult:
            await call_tool("give", {"value": [LONG]})
            return CodeResult(output="ran", state=None)

    code = "```python\ngive()\n```"
    model = ScriptedModel([code, code, "done"])
    system = AgentSystem("scripted:any", providers={"scripted": model}, code_runner=Interpreter()).add_tool(give)
    system.add_agent(name="clerk", description="Codes.", prompt="Write code.", mode="code")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await run(runtime)
        events = [event async for event in thread.events(follow=False) if event.type == EventType.TOOL_OUTPUT]
        assert [event.data["truncated"] for event in events] == [True, True]
        for seq in (None, *(event.seq for event in events)):
            whole = await thread.tool_call(str(events[0].data["callId"]), seq=seq)
            assert (whole.status, whole.args, whole.output) == ("success", {"value": [LONG]}, [LONG])
