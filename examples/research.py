"""Deep research: a lead makes a plan, sends three scouts out at once, and writes a report from what they bring.

    python -m examples.research

Each scout is a thread of its own, with its own conversation and files; the lead sees nothing of it but its report. The
model is a script, so that this runs offline: with another `default_model` the same agents do it for real.
"""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any, Literal

from rich.console import Console
from rich.markdown import Markdown
from rich.panel import Panel

from agency import AgentSystem, Event, EventType, LocalRuntime, ModelRequest, NotFound, Thread, tool
from agency.testing import Line, ScriptedModel, call

QUESTION = "How does bread stay fresh for longer?"
LIBRARY = {
    "storage": "Bread goes stale fastest in the fridge, slower at room temperature, and hardly at all in the freezer.",
    "recipe": "Sourdough keeps for days longer than yeast dough: its acids hold back both staling and mould.",
    "wrapping": "Paper keeps a crust crisp for a day. Plastic keeps the crumb soft for longer, and the crust too.",
}


@tool(safe=True)
async def search(topic: Literal["storage", "recipe", "wrapping"]) -> str:
    """Search the library."""
    await asyncio.sleep(0.8)  # it is a large one
    return LIBRARY[topic]


def script(request: ModelRequest) -> Line:
    """What a model would do next, going by what it was asked and by the results that it has since."""
    start = max(i for i, message in enumerate(request.messages) if message.role == "user")
    asked, *results = [message.content for message in request.messages[start:] if message.role != "assistant"]
    return lead(asked, results) if any(spec.name == "task" for spec in request.tools) else scout(asked, results)


def lead(question: str, results: list[str]) -> Line:
    steps = [*(f"Have the {topic} looked into" for topic in LIBRARY), "Write /report.md"]
    if not results:
        tasks = [
            call("task", description=f"{question} Look into the {topic}", subagentType="scout") for topic in LIBRARY
        ]
        return [call("write_todos", todos=[{"content": step, "status": "pending"} for step in steps]), *tasks]
    if len(results) == 4:
        parts = [f"## The {topic}\n\n{found}" for topic, found in zip(LIBRARY, results[1:], strict=True)]
        written = call("write_file", path="/report.md", content="\n\n".join([f"# {question}", *parts]))
        return [written, call("write_todos", todos=[{"content": step, "status": "completed"} for step in steps])]
    return "The report is in /report.md."


def scout(order: str, results: list[str]) -> Line:
    if not results:
        return call("search", topic=order.rpartition(" ")[2])
    return call("write_file", path="/notes.md", content=results[0]) if len(results) == 1 else results[0]


system = (
    AgentSystem(default_model="script:research", providers={"script": ScriptedModel(script)})
    .defaults()  # planning, files and subagents, for agents with the tag "default"
    .add_tool(search, tags=["library"])
    .add_agent(
        name="lead",
        description="Answers questions with a report.",
        prompt=f"Make a plan, send a scout for each of {', '.join(LIBRARY)}, all at once, and write /report.md.",
    )
    .add_agent(
        name="scout",
        description="Looks into one thing.",
        prompt="Search, keep what you find in /notes.md, and report it in one sentence.",
        tags=["filesystem", "library"],
    )
)


async def follow(runtime: LocalRuntime, thread: Thread, console: Console, number: int = 0) -> None:
    """Print what a thread does until its run ends and, as it happens, what its subagents do."""
    name, style = f"scout {number}" if number else "lead", ("bold", "cyan", "magenta", "green")[number]
    scouts = 0
    async with asyncio.TaskGroup() as others:
        async for event in thread.events():
            if told := shown(event):
                console.print(f"{event.ts[11:23]}  {name:8} {told}", style=style, soft_wrap=True)
            if event.type == EventType.SUBAGENT_SPAWNED:
                scouts += 1
                child = await arrival(runtime, str(event.data["childThreadId"]))
                others.create_task(follow(runtime, child, console, scouts))
            if event.type in (EventType.AGENT_COMPLETED, EventType.AGENT_ERROR):
                return


async def arrival(runtime: LocalRuntime, thread_id: str) -> Thread:
    """A subagent's thread, which is announced a moment before it is there."""
    while True:
        try:
            return await runtime.thread(thread_id)
        except NotFound:
            await asyncio.sleep(0.01)


def shown(event: Event) -> str | None:
    match event.type, event.data:
        case EventType.TOOL_STARTED, {"toolName": "write_todos", "args": {"todos": list(todos)}}:
            return " ".join("☑" if "completed" in str(todo) else "☐" for todo in todos) + " the plan"
        case EventType.TOOL_STARTED, {"toolName": name, "args": dict(args)}:
            return f"→ {name}: {next(iter(args.values()))}"
        case EventType.AGENT_COMPLETED, {"result": result}:
            return f"✓ {result}"
        case ((EventType.TOOL_ERROR | EventType.AGENT_ERROR), {"error": error}):
            return f"✗ {error}"
    return None


async def research(folder: str, console: Console) -> None:
    async with LocalRuntime(system, folder) as runtime:
        thread = await runtime.create_thread("lead")
        await thread.invoke(QUESTION)
        await follow(runtime, thread, console)
        files: Any = (await thread.state()).more["files"]
    console.print(Panel(Markdown(files["/report.md"]), title="/report.md", width=80))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(research(folder, Console(highlight=False)))


if __name__ == "__main__":
    main()
