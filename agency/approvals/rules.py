"""Which calls a person has to approve, by how risky they are: low runs, medium and high ask.

The first rule that fits a call says how risky it is: the agency's, then the blueprint's (`config.hitl`), then the tool
itself. A rule may look at the arguments. Rules only judge; what is asked, and what comes of it, is in the modules
beside this one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import from_json, to_json

from agency.approvals.tools import GuardedTool
from agency.errors import InvalidInput
from agency.json_schema import Schema, validator
from agency.messages import ToolCall
from agency.turn.effects import Ask
from agency.turn.outcomes import OnTimeout, Risk
from agency.wire import Wire

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator as Validator

ANY_TOOL = "*"
RULES_MOST = 200
"""So many can be set; as many by the owner and as many by an agency, which is what is in effect."""


class Rule(Wire):
    """How risky calls of a tool are, or of all tools (`*`), if their arguments fit the JSON schema `when`."""

    tool: Annotated[str, Field(min_length=1, max_length=64)] = ANY_TOOL
    when: Schema | None = None
    risk: Risk

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if self.when is not None:
            try:
                _compiled(to_json(self.when))
            except InvalidInput as error:
                raise ValueError(str(error)) from error
        return self

    def fits(self, call: ToolCall) -> bool:
        if self.tool not in (ANY_TOOL, call.name):
            return False
        return self.when is None or (isinstance(call.args, dict) and _compiled(to_json(self.when)).is_valid(call.args))


class Policy(Wire):
    """Which calls an agency wants a person to approve, whatever its agents' blueprints say. A call without a decision
    within `timeout_ms` is denied, unless `on_timeout` says otherwise."""

    rules: Annotated[tuple[Rule, ...], Field(max_length=2 * RULES_MOST)] = ()
    timeout_ms: Annotated[int, Field(ge=1, lt=2**53)] | None = None
    on_timeout: OnTimeout = "deny"

    def ask(self, risk: Risk) -> Ask:
        """How a person is asked about a call that others have asked for."""
        return Ask(risk=risk, timeout_ms=self.timeout_ms, on_timeout=self.on_timeout)

    def risk_of(self, call: ToolCall, tool: GuardedTool | None) -> Risk | None:
        """How risky the policy says a call is; None if it says nothing."""
        return ruled_risk(call, tool, self.rules)

    def asks(self, call: ToolCall, tool: GuardedTool | None) -> Ask | None:
        """How a person is asked about a call by the policy's wish; None if it has none."""
        risk = self.risk_of(call, tool)
        return None if risk is None or risk == "low" else self.ask(risk)


NO_POLICY = Policy()


def risk_of(call: ToolCall, tool: GuardedTool | None, *rules: Sequence[Rule]) -> Risk:
    """How risky a call is: by the first rule that fits, else by what the tool itself says."""
    ruled = ruled_risk(call, tool, [rule for some in rules for rule in some])
    return ruled or ("high" if tool is None else tool.risk_of(call.args))


def ruled_risk(call: ToolCall, tool: GuardedTool | None, rules: Sequence[Rule]) -> Risk | None:
    """The risk that the first rule which fits gives a call; None if none does. Rules look at the arguments as the tool
    will get them, so that no way of writing them gets around a rule."""
    if tool is not None and any(rule.when is not None for rule in rules):
        call = call.model_copy(update={"args": tool.stated(call.args)})
    return next((rule.risk for rule in rules if rule.fits(call)), None)


@functools.lru_cache(maxsize=256)
def _compiled(schema: bytes) -> Validator:
    return validator(from_json(schema), "the schema of a rule")
