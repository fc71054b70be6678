"""Asking somebody about a call: approve it, once or for always, edit its arguments, deny it, or answer in its place.
The talk, without the terminal.

question = Question(call)
while question.decision is None: question.take(<what is typed after question.prompt>)
"""

from __future__ import annotations

import json

from agency.approvals.pending import PendingToolCall
from agency.errors import InvalidInput
from agency.turn.outcomes import Always, Approve, Decision, Deny, Edit, Respond
from dashboard.command.shown import compact

CHOOSE = "approve? (y)es, (a)lways, (e)dit its arguments, (r)espond in its place, (n)o: "
EDIT = "arguments as JSON, or nothing to leave them: "
REASON = "why not? the model is told: "
RESPOND = "its result, or nothing to go back: "


class Question:
    def __init__(self, call: PendingToolCall) -> None:
        self._call = call
        self._take = self._choose
        self.prompt = CHOOSE
        self.decision: Decision | None = None

    def take(self, typed: str) -> None:
        self._take(typed.strip())

    def _choose(self, given: str) -> None:
        match given.lower():
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
                self.prompt = CHOOSE

    def _deny(self, given: str) -> None:
        self.decision = Deny(given)

    def _respond(self, given: str) -> None:
        if given:
            self.decision = Respond(given)
        else:
            self.prompt, self._take = CHOOSE, self._choose

    def _edit(self, given: str) -> None:
        if not given:
            self.prompt, self._take = CHOOSE, self._choose
            return
        try:
            self.decision = parse_edit(given)
        except InvalidInput as error:
            self.prompt = f"{error}\n{EDIT}"


def parse_edit(text: str) -> Edit:
    """Arguments as somebody typed them."""
    try:
        args = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"that is no JSON: {error}") from error
    if not isinstance(args, dict):
        raise InvalidInput('arguments are a JSON object, such as {"path": "/report.md"}')
    return Edit(args)
