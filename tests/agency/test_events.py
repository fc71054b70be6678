"""All events are really emitted, in an order that tells the story."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agency import (
    AgentSystem,
    Event,
    EventType,
    LocalRuntime,
    ModelError,
    ModelReply,
    ModelRequest,
    RetryPolicy,
    Thread,
    ToolContext,
    ToolError,
    tool,
)
from agency.events import PREVIEW_CHARS
from agency.store.store import EVENT_TYPES
from agency.testing import Line, ScriptedModel, call
from agency.turn.replies import ENDED_UNKNOWN
from middleware import hitl

PATIENCE = 10.0


@tool(retry=RetryPolicy(attempts=2))
async def act(how: str, ctx: ToolContext) -> object:
    if how == "wait":
        return await ctx.wait_outside("nothing much", timeout_ms=20)
    if how == "consult":
        return (await ctx.ask_model("What now?")).text
    if how == "stumble" and ctx.attempt == 1:
        raise ToolError("not yet", retry_after_ms=1)
    if how == "fail":
        raise ToolError("it failed")
    if how == "hang":
        await asyncio.Event().wait()
    return how


tried: list[str] = []


def script(request: ModelRequest) -> Line:
    last = request.messages[-1]
    if last.role == "tool":
        return "all is well"
    match last.content:
        case "error":
            tried.append("error")
            return ModelError("no", retryable=len(tried) == 1, retry_after_ms=1)
        case "delegate":
            return call("task", description="say hello", subagentType="helper")
        case "What now?":
            return "nothing"
        case "say hello":
            return "hello"
        case "trail off":
            return ModelReply(text="and so", stop="unknown")
        case asked if asked == ENDED_UNKNOWN:
            return "all is said"
        case how:
            return call("act", how=how)


def build() -> AgentSystem:
    return (
        AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)})
        .defaults()
        .use(hitl)
        .add_tool(act)
        .add_agent(
            name="boss", description="d", prompt="p", tags=["default", "hitl"], config={"hitl": {"tools": ["act"]}}
        )
        .add_agent(name="helper", description="d", prompt="p")
    )


async def live(thread: Thread, seen: list[Event]) -> None:
    async for event in thread.events():
        seen.append(event)


async def ask(thread: Thread, message: str) -> list[str]:
    """Send a message and see it through; the types of the stored events that it led to."""
    past = [event.seq async for event in thread.events(follow=False)][-1]
    await thread.invoke(message)
    if (await thread.wait(PATIENCE)).meta.pause_reason == "hitl":
        await thread.approve()
        if message == "hang":
            async for event in thread.events():
                if event.type == EventType.TOOL_STARTED and event.data["args"] == {"how": "hang"}:
                    break
            await thread.cancel()
        await thread.wait(PATIENCE)
    assert past is not None
    return [event.type.value async for event in thread.events(past, follow=False)]


async def test_every_event_type_is_emitted_and_stored_ones_are_seen_live_in_order(tmp_path: Path) -> None:
    seen: list[Event] = []
    async with LocalRuntime(build(), tmp_path) as runtime:
        thread = await runtime.create_thread("boss")
        watcher = asyncio.create_task(live(thread, seen))
        for message in ("work", "fail", "consult", "wait", "delegate", "error", "trail off", "hang", "stumble"):
            await ask(thread, message)
        await thread.put_files({"/note.txt": "x"})
        await thread.invoke("hang")
        await thread.wait(PATIENCE)
        await thread.approve()
        stored = [event async for event in thread.events(follow=False)]
    await asyncio.wait_for(watcher, PATIENCE)
    async with LocalRuntime(build(), tmp_path) as runtime:  # which was closed while a tool was at work
        thread = await runtime.thread(thread.id)
        await thread.cancel()
        later = [event async for event in thread.events(len(stored), follow=False)]
    assert [event for event in seen if event.seq is not None] == stored
    assert {event.type for event in [*seen, *later]} == set(EventType)
    assert {event.type for event in [*stored, *later]} == set(EventType) - {EventType.MODEL_DELTA}


async def test_the_events_of_an_approved_call_tell_its_story(tmp_path: Path) -> None:
    async with LocalRuntime(build(), tmp_path) as runtime:
        thread = await runtime.create_thread("boss")
        assert await ask(thread, "work") == [
            "request.accepted",
            "run.started",
            "agent.started",
            "run.tick",
            *["middleware.before_model"] * 4,
            "model.started",
            "model.completed",
            "middleware.after_model",
            "hitl.interrupt",
            "run.paused",
            "hitl.resume",
            "run.resumed",
            "tool.started",
            "tool.output",
            "checkpoint.saved",
            "run.tick",
            *["middleware.before_model"] * 4,
            "model.started",
            "model.completed",
            "middleware.after_model",
            "checkpoint.saved",
            "capabilities.resolved",
            "agent.completed",
        ]


async def test_events_show_only_the_beginning_of_what_is_long(tmp_path: Path) -> None:
    long = "x" * (PREVIEW_CHARS + 500)
    async with LocalRuntime(build(), tmp_path) as runtime:
        thread = await runtime.create_thread("boss")
        await ask(thread, long)
        shown = {event.type: event.data async for event in thread.events(follow=False)}
        assert len(str(shown[EventType.TOOL_STARTED]["args"])) < PREVIEW_CHARS + 100
        assert str(shown[EventType.TOOL_OUTPUT]["output"]).endswith("… (500 more characters)")
        assert (await thread.state()).messages[2].content == long


def test_event_types_are_stored_by_numbers_that_never_change() -> None:
    assert [event_type.value for event_type in EVENT_TYPES] == [
        "thread.created",
        "request.accepted",
        "run.started",
        "run.tick",
        "run.paused",
        "run.resumed",
        "run.canceled",
        "agent.started",
        "agent.completed",
        "agent.error",
        "checkpoint.saved",
        "model.started",
        "model.delta",
        "model.completed",
        "middleware.before_model",
        "middleware.after_model",
        "tool.started",
        "tool.output",
        "tool.error",
        "hitl.interrupt",
        "hitl.resume",
        "subagent.spawned",
        "subagent.completed",
        "capabilities.resolved",
        "runtime.warning",
        "model.asked",
        "tool.waiting",
        "run.recovered",
        "tool.retried",
        "model.retried",
        "state.edited",
    ]
