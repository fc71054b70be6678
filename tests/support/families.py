"""Agents that play parts and have work done by each other, in this process."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from agency import (
    AgentSystem,
    Event,
    EventType,
    LocalRuntime,
    ModelRequest,
    Thread,
    Tool,
    ToolCall,
    tool,
)
from agency.children.parcels import AnyParcel, Spawn
from agency.testing import Line, ScriptedModel, call
from middleware import hitl, subagents

Part = Sequence[Line] | Callable[[ModelRequest], Line | Awaitable[Line]]
"""What an agent says: its lines, or a function of the request."""


def cast(
    parts: dict[str, Part],
    *tools: Tool,
    config: dict[str, dict[str, Any]] | None = None,
    disabled: Sequence[str] = (),
) -> AgentSystem:
    """A system of agents that play their parts. All have subagents, and people to ask; `config` is by agent."""

    async def script(request: ModelRequest) -> Line:
        part = parts[request.system.split()[0]]
        if callable(part):
            line = part(request)
            return await line if isinstance(line, Awaitable) else line
        return part[sum(message.role == "assistant" for message in request.messages)]

    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)})
    system.use(subagents, tags=["default"]).use(hitl, tags=["default"])
    for each in tools:
        system.add_tool(each)
    for name in parts:
        system.add_agent(
            name=name,
            description=f"Is {name}.",
            prompt=name,
            config=(config or {}).get(name),
            status="disabled" if name in disabled else "active",
        )
    return system


def task(to: str = "worker", call_id: str = "task", **more: Any) -> ToolCall:
    return ToolCall(id=call_id, name="task", args={"description": f"work for {call_id}", "subagentType": to, **more})


class Hang:
    """A tool in which its caller stays until it is stopped."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.stopped = asyncio.Event()

        @tool
        async def hang() -> str:
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped.set()
            return "never"

        self.tool = hang


HANGS: list[Line] = [call("hang", call_id="hang"), "never said"]


async def start(runtime: LocalRuntime, agent: str = "boss") -> Thread:
    thread = await runtime.create_thread(agent, thread_id=agent)
    await thread.invoke("go")
    return thread


async def answer_of(thread: Thread) -> Any:
    """The result of the thread's run, which completes."""
    run = await thread.wait(timeout=10)
    assert run.status == "completed", run
    return run.data


async def results(thread: Thread) -> dict[str | None, str]:
    messages = (await thread.state()).messages
    return {message.tool_call_id: message.content for message in messages if message.role == "tool"}


async def links(thread: Thread) -> list[dict[str, Any]]:
    more: dict[str, Any] = (await thread.state()).more
    found: list[dict[str, Any]] = more["subagents"]
    return found


async def next_event(thread: Thread, wanted: EventType, count: int = 1) -> Event:
    """The `count`-th event of a type, once it is there."""
    async with asyncio.timeout(10):
        async for event in thread.events():
            if event.type == wanted:
                count -= 1
                if count == 0:
                    return event
    raise AssertionError(f"the thread closed without {wanted}")


class FamilyRuntime(LocalRuntime):
    """Threads in this process, which tell when a child has been started."""

    def __init__(self, system: AgentSystem, data_dir: Path) -> None:
        super().__init__(system, data_dir)
        self._started: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def deliver(self, parcel: AnyParcel) -> None:
        await super().deliver(parcel)
        if isinstance(parcel, Spawn):
            self._started[parcel.to].set()

    async def child_of(self, parent: Thread) -> Thread:
        """A thread's first child, once it has been started."""
        spawned = await next_event(parent, EventType.SUBAGENT_SPAWNED)
        child = str(spawned.data["childThreadId"])
        async with asyncio.timeout(10):
            await self._started[child].wait()
        return await self.thread(child)
