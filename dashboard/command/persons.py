"""Who answers when a call of `agency run` waits for a person."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from agency.approvals.pending import PendingToolCall
from agency.turn.outcomes import Approve, Decision
from dashboard.command.asking import Question
from dashboard.command.console import err
from dashboard.command.progress import Progress
from dashboard.command.shown import call_line


class Agreeable:
    """Approves everything, as `--yes` says."""

    async def decide(self, calls: Sequence[PendingToolCall]) -> dict[str, Decision] | None:
        return {call.id: Approve() for call in calls}


class Nobody:
    async def decide(self, calls: Sequence[PendingToolCall]) -> dict[str, Decision] | None:
        return None


class AtTheTerminal:
    """Somebody who can be asked. The agents go on meanwhile."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    async def decide(self, calls: Sequence[PendingToolCall]) -> dict[str, Decision] | None:
        decisions: dict[str, Decision] = {}
        with self._progress.held():
            for call in calls:
                decision = await self._ask(call)
                if decision is None:
                    return None
                decisions[call.id] = decision
        return decisions

    async def _ask(self, call: PendingToolCall) -> Decision | None:
        err.print("✋ ", call_line(call), style="yellow", sep="")
        question = Question(call)
        while question.decision is None:
            err.print(question.prompt, end="", markup=False, highlight=False)
            typed = await _typed_line()
            if typed is None:
                return None
            question.take(typed)
        return question.decision


async def _typed_line() -> str | None:
    """The next line from the keyboard; None if it was closed. Unlike `input`, it can be canceled."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[bytes] = loop.create_future()
    keyboard = sys.stdin.fileno()

    def read() -> None:
        loop.remove_reader(keyboard)
        try:
            line.set_result(os.read(keyboard, 65_536))
        except OSError:
            line.set_result(b"")

    loop.add_reader(keyboard, read)
    try:
        typed = await line
    finally:
        loop.remove_reader(keyboard)
    return typed.decode("utf-8", "replace") if typed else None
