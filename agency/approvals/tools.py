"""What approvals need to know of a tool. `agency.define.tools.Tool` has it all."""

from __future__ import annotations

from typing import Protocol

from pydantic import JsonValue

from agency.turn.outcomes import Risk


class GuardedTool(Protocol):
    def risk_of(self, args: JsonValue) -> Risk:
        """How risky a call with these arguments is, by the tool's own word."""

    def stated(self, args: JsonValue) -> JsonValue:
        """The arguments as the tool will get them, defaults and aliases resolved."""

    def bind(self, args: JsonValue) -> object:
        """Raise `InvalidInput` if the tool cannot be called with these arguments."""
