"""`examples.observed`: three observers tell one story, and closing everything half-way makes no second trace."""

from __future__ import annotations

from pathlib import Path

from tests.support.example_processes import run


def test_three_observers_tell_the_same_story(tmp_path: Path) -> None:
    printed = run("observed", folder=tmp_path)

    before, _, after = printed.partition("After everything was closed and opened again")
    assert "support: look_up\n  support: task\n" in before
    assert "waits (hitl)" in before
    assert "support: write\n  The customer knows." in after
    assert "4 turns" in after
    assert "calls: {'look_up': 1, 'task': 1, 'write': 1}" in after
    assert "1 granted, 0 pending" in after
    traces = after.partition("2 traces:\n")[2].splitlines()
    assert [line.strip() for line in traces] == [
        "invoke_agent support",
        "turn",
        "chat any",
        "execute_tool look_up",
        "execute_tool task → another trace",
        "turn",
        "chat any",
        "execute_tool write",
        "turn",
        "chat any",
        "invoke_agent colleague → another trace",
        "turn",
        "chat any",
    ]
    assert list(tmp_path.iterdir()) == []
