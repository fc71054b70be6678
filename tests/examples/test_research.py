"""`examples.research`: three scouts at the same time, their notes, and one report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agency import LocalRuntime
from examples.research import LIBRARY, QUESTION, system
from tests.support.example_processes import run


def test_it_shows_the_lead_and_the_scouts_at_work_and_then_the_report(tmp_path: Path) -> None:
    printed = run("research", folder=tmp_path)

    lines = [line.split(maxsplit=1)[1] for line in printed.splitlines() if line[:2].isdigit()]
    assert lines[0] == "lead     ☐ ☐ ☐ ☐ the plan"
    assert sum(line.startswith("lead     → task: ") for line in lines) == 3
    for number, (topic, finding) in enumerate(LIBRARY.items(), 1):
        steps = [line.removeprefix(f"scout {number}  ") for line in lines if line.startswith(f"scout {number}")]
        assert steps == [f"→ search: {topic}", "→ write_file: /notes.md", f"✓ {finding}"]
        assert f"The {topic}" in printed.partition("/report.md ─")[2]
    assert lines[-2:] == ["lead     ☑ ☑ ☑ ☑ the plan", "lead     ✓ The report is in /report.md."]
    assert list(tmp_path.iterdir()) == []


async def test_the_scouts_work_at_the_same_time_and_the_report_has_what_each_of_them_noted(tmp_path: Path) -> None:
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("lead")
        await thread.invoke(QUESTION)
        run = await thread.wait(60)
        more: dict[str, Any] = (await thread.state()).more
        scouts = more["subagents"]
        notes = [await files_of(runtime, scout["childThreadId"]) for scout in scouts]

    assert run.status == "completed"
    assert [scout["status"] for scout in scouts] == ["completed"] * 3
    assert max(scout["createdAt"] for scout in scouts) < min(scout["completedAt"] for scout in scouts)
    assert notes == [{"/notes.md": finding} for finding in LIBRARY.values()]
    assert all(f"## The {topic}\n\n{finding}" in more["files"]["/report.md"] for topic, finding in LIBRARY.items())


async def files_of(runtime: LocalRuntime, thread_id: str) -> object:
    return (await (await runtime.thread(thread_id)).state()).more["files"]


async def test_a_second_question_in_the_same_thread_is_researched_as_well(tmp_path: Path) -> None:
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("lead")
        for question in (QUESTION, "And cake?"):
            await thread.invoke(question)
            assert (await thread.wait(60)).status == "completed"
        more: dict[str, Any] = (await thread.state()).more

    assert len(more["subagents"]) == 6
    assert more["files"]["/report.md"].startswith("# And cake?\n")
