"""A manager and two subagents write a report, in your terminal, offline. Kill it, start it again: it carries on.

    python -m examples.demo [FILE]           # the thread is in FILE, data/demo.db by default
    python -m examples.demo [FILE] --look    # only show what is in it

`system` is all there is to define; the rest shows what happens.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

from agency import AgentSystem, Event, EventType, Thread, open_thread, tool
from middleware import hitl

TASK = "Should our bakery deliver on the same day?"
MARKS = {"pending": "☐", "in_progress": "▶", "completed": "☑"}
ENDS = (EventType.AGENT_COMPLETED, EventType.AGENT_ERROR, EventType.RUN_CANCELED)


@tool(risk="high", idempotent=False)
async def publish(path: str) -> str:
    """Publish a file, for the whole world to read."""
    return f"{path} is public now."


system = (
    AgentSystem(default_model="demo:default")
    .defaults()  # planning, files and subagents, for agents with the tag "default"
    .use(hitl, tags=["careful"])
    .add_tool(publish, tags=["publishing"])
    .add_agent(name="researcher", description="Finds facts.", prompt="You find facts.", tags=[])
    .add_agent(name="critic", description="Finds weak points.", prompt="You find weak points.", tags=[])
    .add_agent(
        name="manager",
        description="Writes reports.",
        prompt="You plan, ask your subagents, write a report and publish it.",
        tags=["default", "publishing", "careful"],
        config={"hitl": {"tools": ["publish"]}},
    )
)


async def main(file: Path) -> None:
    async with open_thread(system, file, agent="manager") as thread:
        if thread.run_state().status in ("running", "paused"):
            print("There is an unfinished run. It goes on; this is what has happened so far:")
        else:
            await thread.send(TASK)
            print(f"A new run: {TASK}")
        print(f"(Kill it when you like, with Ctrl-C or kill -9 {os.getpid()}, and start it again.)\n")
        await follow(thread)
    print(f"\nEverything is in {file}. To look at it: {sys.executable} -m examples.demo {file} --look")


async def follow(thread: Thread) -> None:
    """Show the run from its beginning to its end, and ask when it waits for somebody's approval."""
    run_id, talking = thread.run_state().run_id, False
    async for event in thread.events():
        if event.data.get("runId") != run_id:
            continue  # of an earlier run
        if talking and event.type != EventType.MODEL_DELTA:
            print()
        talking = event.type == EventType.MODEL_DELTA
        show(event)
        if event.type == EventType.HITL_INTERRUPT and thread.run().meta.pending_tool_calls:
            await decide(thread)  # if nothing is pending, it was decided before we were killed
        if event.type in ENDS:
            return


def show(event: Event) -> None:
    match event.type, event.data:
        case EventType.MODEL_DELTA, {"delta": str(delta)}:
            print(delta, end="", flush=True)
        case EventType.TOOL_STARTED, {"toolName": "write_todos", "args": {"todos": list(todos)}}:
            for todo in todos:
                if isinstance(todo, dict):
                    print(f"    {MARKS[str(todo['status'])]} {todo['content']}")
        case ((EventType.TOOL_STARTED | EventType.TOOL_OUTPUT), {"toolName": "write_todos" | "task"}):
            pass  # the todos were shown, and subagents have events of their own
        case EventType.TOOL_STARTED, {"toolName": name}:
            print(f"  → {name}")
        case EventType.TOOL_OUTPUT, {"output": output}:
            print(f"  ← {output}")
        case EventType.TOOL_ERROR, {"error": error}:
            print(f"  ✗ {error}")
        case EventType.SUBAGENT_SPAWNED, {"agentType": agent, "childThreadId": child}:
            print(f"  ⇉ subagent {agent} started ({child})")
        case EventType.SUBAGENT_COMPLETED, {"childThreadId": child, "status": status, "result": result}:
            print(f"  ⇇ subagent {status} ({child}): {result}")
        case EventType.HITL_RESUME, {"approved": approved}:
            print(f"  ✋ {'approved' if approved else 'denied'}")
        case EventType.AGENT_ERROR, {"code": code, "error": error}:
            print(f"The run failed: {code}: {error}")


async def decide(thread: Thread) -> None:
    """Ask whoever sits at the terminal."""
    for call in thread.run().meta.pending_tool_calls:
        print(f"  ✋ approval wanted: {call.name} {call.args}")
    if not sys.stdin.isatty():
        print("  ✋ nobody is at the terminal, so it is approved")
        await thread.approve()
    elif (await asyncio.to_thread(input, "  ✋ Approve? [y/N] ")).strip().lower() in ("y", "yes"):
        await thread.approve()
    else:
        await thread.deny("the person at the terminal said no")


async def look(file: Path) -> None:
    """Show the conversation and the files."""
    async with open_thread(system, file) as thread:
        state = await thread.state()
    for message in state.messages:
        called = "".join(f"\n  → {call.name} {call.args}" for call in message.tool_calls)
        print(f"{message.role}: {message.content}{called}")
    files = state.more["files"]
    for path, content in files.items() if isinstance(files, dict) else ():
        print(f"\n--- {path} ---\n{content}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=Path("data/demo.db"), help="where the thread is kept")
    parser.add_argument("--look", action="store_true", help="only show what is in it")
    given = parser.parse_args()
    if given.look and not given.file.exists():
        parser.error(f"there is no {given.file} to look at yet")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C simply kills: nothing is lost, which is the point
    asyncio.run(look(given.file) if given.look else main(given.file))
