"""The demo as people run it: a process of its own, to its end, and killed on the way there."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agency import EventType, ThreadState, open_thread
from examples.demo import system

ROOT = Path(__file__).parents[2]
UNBUFFERED = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}


@contextmanager
def demo(*arguments: str | Path, stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[str]]:
    """The demo, running; it does not outlive the test."""
    command = [sys.executable, "-m", "examples.demo", *map(str, arguments)]
    with subprocess.Popen(
        command, cwd=ROOT, env=UNBUFFERED, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run(*arguments: str | Path, stdin: int = subprocess.DEVNULL) -> str:
    """What the demo prints, run to its end."""
    with demo(*arguments, stdin=stdin) as process:
        printed, _ = process.communicate()
        assert process.returncode == 0, printed
        return printed


def kill_when(process: subprocess.Popen[str], text: str) -> None:
    """Read what it prints up to a line with this text, then kill it."""
    assert process.stdout is not None
    printed: list[str] = []
    for line in process.stdout:
        printed.append(line)
        if text in line:
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            return
    raise AssertionError(f"it ended without {text!r}:\n{''.join(printed)}")


@contextmanager
def terminal(typed: str) -> Iterator[int]:
    """A terminal for somebody's stdin, with this already typed into it."""
    keyboard, screen = pty.openpty()
    try:
        os.write(keyboard, typed.encode())
        yield screen
    finally:
        os.close(keyboard)
        os.close(screen)


async def outcome(file: Path) -> tuple[ThreadState, list[EventType]]:
    async with open_thread(system, file) as thread:
        assert thread.run().status == "completed"
        return await thread.state(), [event.type async for event in thread.events(follow=False)]


async def assert_all_of_it_happened_once(file: Path) -> None:
    state, events = await outcome(file)
    match state.more:
        case {"todos": list(todos), "files": {"/report.md": str(report)}, "subagents": list(children)}:
            assert len(todos) == 4
            assert all(isinstance(todo, dict) and todo["status"] == "completed" for todo in todos)
            assert "## researcher" in report and "## critic" in report
            kinds = [(child["agentType"], child["status"]) for child in children if isinstance(child, dict)]
            assert kinds == [("researcher", "completed"), ("critic", "completed")]
        case other:
            raise AssertionError(other)
    calls = [call.name for message in state.messages for call in message.tool_calls]
    assert calls == ["write_todos", "task", "task", "write_file", "publish", "write_todos"]
    for once in (EventType.RUN_STARTED, EventType.HITL_INTERRUPT, EventType.HITL_RESUME, EventType.AGENT_COMPLETED):
        assert events.count(once) == 1, once
    assert "/report.md is public now" in state.messages[-1].content


async def test_it_runs_to_its_end_and_shows_everything(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "demo.db"

    printed = run(file)

    for part in (
        "▶ Ask researcher and critic",
        "subagent researcher started",
        "subagent critic started",
        "→ write_file",
        "approval wanted: publish",
        "nobody is at the terminal, so it is approved",
        "☑ Sum up",
        "/report.md is public now",
        f"Everything is in {file}",
    ):
        assert part in printed
    assert printed.count("subagent completed") == 2
    await assert_all_of_it_happened_once(file)


async def test_killed_while_its_subagents_work_it_carries_on_with_the_same_run(tmp_path: Path) -> None:
    file = tmp_path / "demo.db"
    with demo(file) as process:
        kill_when(process, "subagent researcher started")

    printed = run(file)

    assert "There is an unfinished run" in printed
    assert printed.count("subagent completed") == 2
    await assert_all_of_it_happened_once(file)


async def test_killed_while_it_waits_for_approval_it_asks_again(tmp_path: Path) -> None:
    file = tmp_path / "demo.db"
    with terminal(typed="") as nobody_types, demo(file, stdin=nobody_types) as process:
        kill_when(process, "approval wanted")

    printed = run(file)

    assert "There is an unfinished run" in printed
    assert printed.count("approval wanted") == 1
    assert printed.index("subagent completed") < printed.index("approval wanted") < printed.index("→ publish")
    await assert_all_of_it_happened_once(file)


async def test_a_no_at_the_prompt_keeps_the_report_unpublished(tmp_path: Path) -> None:
    file = tmp_path / "demo.db"

    with terminal(typed="n\n") as typed:
        printed = run(file, stdin=typed)

    assert "Approve? [y/N]" in printed
    assert "public now" not in printed
    state, _ = await outcome(file)
    assert "the person at the terminal said no" in state.messages[-1].content


async def test_a_yes_at_the_prompt_publishes_it(tmp_path: Path) -> None:
    file = tmp_path / "demo.db"

    with terminal(typed="y\n") as typed:
        run(file, stdin=typed)

    await assert_all_of_it_happened_once(file)


async def test_started_again_after_its_end_it_begins_a_new_run_in_the_same_thread(tmp_path: Path) -> None:
    file = tmp_path / "demo.db"
    run(file)

    printed = run(file)

    assert "A new run" in printed
    assert printed.count("approval wanted") == 1
    _, events = await outcome(file)
    assert events.count(EventType.AGENT_COMPLETED) == 2


async def test_look_shows_what_is_there_and_starts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "demo.db"
    run(file)

    printed = run(file, "--look")

    assert "--- /report.md ---" in printed
    _, events = await outcome(file)
    assert events.count(EventType.RUN_STARTED) == 1
