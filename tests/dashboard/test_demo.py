"""The system that is served by default: what its first thread shows, up to the approval and after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agency import LocalRuntime, Thread
from dashboard.demo import AGENT, TASK, system


async def more(thread: Thread) -> dict[str, Any]:
    return (await thread.state()).more


async def tool_names(runtime: LocalRuntime, thread_id: str) -> list[str]:
    state = await (await runtime.thread(thread_id)).state()
    return [call.name for message in state.messages for call in message.tool_calls]


async def test_the_first_thread_has_something_to_see_waits_for_a_person_and_completes_once_approved(
    tmp_path: Path,
) -> None:
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread(AGENT)
        await thread.invoke(TASK)
        paused = await thread.wait(60)
        shown = await more(thread)
        called = [await tool_names(runtime, child["childThreadId"]) for child in shown["subagents"]]
        await thread.approve()
        ended = await thread.wait(60)
        todos = (await more(thread))["todos"]

    assert (paused.status, paused.meta.pause_reason) == ("paused", "hitl")
    (call,) = paused.meta.pending_tool_calls
    assert (call.name, call.args, call.risk) == ("publish", {"path": "/report.md"}, "high")
    assert [todo["content"] for todo in shown["todos"]] == [
        "Ask researcher and critic",
        "Write /report.md",
        "Use publish",
        "Sum up",
    ]
    assert "## researcher" in shown["files"]["/report.md"]
    assert "## critic" in shown["files"]["/report.md"]
    assert called == [["ask_customers"], ["estimate_costs"]]
    children = shown["subagents"]
    assert max(child["createdAt"] for child in children) < min(child["completedAt"] for child in children)
    assert ended.status == "completed"
    assert "/report.md is public now" in str(ended.data)
    assert {todo["status"] for todo in todos} == {"completed"}
