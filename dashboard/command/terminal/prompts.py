"""The dialog about a call that waits for approval: approve it once or always, edit its arguments, deny it, or respond.

`Question` is the dialog without the terminal: it says what to print and takes what the person typed.

    question = Question(call)
    while question.decision is None:
        question.take(<what the person types after question.prompt>)

The deciders are the ways in which `agency run` decides: `--yes` approves, a person at the terminal is asked, and
without either the run waits.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from typing import Protocol

from agency.approvals.pending import PendingToolCall
from agency.errors import InvalidInput
from agency.turn.outcomes import Always, Approve, Decision, Deny, Edit, Happened, Rerun, Respond
from dashboard.command.terminal.console import err
from dashboard.command.terminal.display import RunDisplay
from dashboard.command.terminal.rendering import call_line, compact

CHOOSE = "approve? (y)es, (a)lways, (e)dit its arguments, (r)espond in its place, (n)o: "
EDIT = "arguments as JSON, or nothing to leave them: "
REASON = "why not? the model is told: "
RESPOND = "its result, or nothing to go back: "
CHOOSE_IN_DOUBT = "it may have happened: (r)un again, (h)appened, and its result, (n)o, do not run it again: "
HAPPENED = "its result, as JSON or text, or nothing to go back: "


class Question:
    def __init__(self, call: PendingToolCall) -> None:
        self._call = call
        self._in_doubt = call.kind == "in_doubt"
        self._start = CHOOSE_IN_DOUBT if self._in_doubt else CHOOSE
        self._take = self._choose
        self.prompt = self._start
        self.decision: Decision | None = None

    def take(self, typed: str) -> None:
        self._take(typed.strip())

    def _choose(self, typed: str) -> None:
        if self._in_doubt:
            self._choose_in_doubt(typed)
            return
        match typed.lower():
            case "y" | "yes":
                self.decision = Approve()
            case "a" | "always":
                self.decision = Always()
            case "r" | "respond":
                self.prompt, self._take = RESPOND, self._respond
            case "n" | "no":
                self.prompt, self._take = REASON, self._deny
            case "e" | "edit":
                self.prompt, self._take = f"now: {compact(self._call.args)}\n{EDIT}", self._edit
            case _:
                self.prompt = self._start

    def _choose_in_doubt(self, typed: str) -> None:
        match typed.lower():
            case "r" | "run again":
                self.decision = Rerun()
            case "h" | "happened":
                self.prompt, self._take = HAPPENED, self._happened
            case "n" | "no":
                self.prompt, self._take = REASON, self._deny
            case _:
                self.prompt = self._start

    def _happened(self, typed: str) -> None:
        if typed:
            self.decision = parse_happened(typed)
        else:
            self.prompt, self._take = self._start, self._choose

    def _deny(self, typed: str) -> None:
        self.decision = Deny(typed)

    def _respond(self, typed: str) -> None:
        if typed:
            self.decision = Respond(typed)
        else:
            self.prompt, self._take = self._start, self._choose

    def _edit(self, typed: str) -> None:
        if not typed:
            self.prompt, self._take = self._start, self._choose
            return
        try:
            self.decision = parse_edit(typed)
        except InvalidInput as error:
            self.prompt = f"{error}\n{EDIT}"


def parse_edit(text: str) -> Edit:
    """An edit, from arguments that a person typed as JSON."""
    try:
        args = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"that is no JSON: {error}") from error
    if not isinstance(args, dict):
        raise InvalidInput('arguments are a JSON object, such as {"path": "/report.md"}')
    return Edit(args)


def parse_happened(text: str) -> Happened:
    """What a call came to, as a person typed it: JSON, or else a text."""
    try:
        return Happened(json.loads(text))
    except ValueError:
        return Happened(text)


# Deciders.


class Decider(Protocol):
    async def decide(self, calls: Sequence[PendingToolCall]) -> dict[str, Decision] | None:
        """Decisions by the calls' ids; None if no person is there to decide."""


class ApproveAll:
    """Approves every call (`--yes`) but those in doubt, which may have happened and need a person."""

    async def decide(self, calls: Sequence[PendingToolCall]) -> dict[str, Decision] | None:
        decisions: dict[str, Decision] = {call.id: Approve() for call in calls if call.kind != "in_doubt"}
        return decisions or None


class LeaveWaiting:
    """Decides nothing: there is no terminal to ask at."""

    async def decide(self, calls: Sequence[PendingToolCall]) -> dict[str, Decision] | None:
        return None


class AskAtTerminal:
    """Asks the person at the terminal. The agents continue in the meantime."""

    def __init__(self, display: RunDisplay) -> None:
        self._display = display

    async def decide(self, calls: Sequence[PendingToolCall]) -> dict[str, Decision] | None:
        decisions: dict[str, Decision] = {}
        with self._display.suspended():
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
