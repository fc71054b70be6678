"""Which calls a person has to approve, by how risky they are: low runs, medium and high ask.

How risky a call is, is said by the first rule that fits it: the agency's, then the blueprint's (`config.hitl`), then
the tool itself. A rule may look at the arguments. What was approved for always is remembered in the thread's file.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import from_json, to_json

from agency.approvals.tools import GuardedTool
from agency.errors import InvalidInput
from agency.json_schema import Schema, validator
from agency.messages import ToolCall
from agency.store.draft import Draft
from agency.turn.effects import Ask, PendingCall
from agency.turn.outcomes import Asked, OnTimeout, Risk
from agency.wire import Wire

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator as Validator

ANY_TOOL = "*"
RULES_MOST = 200
_OWNER = "approvals"


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
    """What an agency wants to be asked about, whatever its agents' blueprints say. Without an answer within the time,
    calls are denied, unless it says otherwise."""

    rules: Annotated[tuple[Rule, ...], Field(max_length=RULES_MOST)] = ()
    timeout_ms: Annotated[int, Field(ge=1, lt=2**53)] | None = None
    on_timeout: OnTimeout = "deny"

    def ask(self, risk: Risk) -> Ask:
        return Ask(risk=risk, timeout_ms=self.timeout_ms, on_timeout=self.on_timeout)


NO_POLICY = Policy()


def risk_of(call: ToolCall, tool: GuardedTool | None, *rules: Sequence[Rule]) -> Risk:
    """How risky a call is: by the first rule that fits, else by the tool's own word."""
    ruled = ruled_risk(call, tool, [rule for some in rules for rule in some])
    return ruled or ("high" if tool is None else tool.risk_of(call.args))


def ruled_risk(call: ToolCall, tool: GuardedTool | None, rules: Sequence[Rule]) -> Risk | None:
    """The risk that the first rule which fits gives a call; None if none does. Rules look at the arguments as the tool
    will get them, so that no way of writing them gets around a rule."""
    if tool is not None and any(rule.when is not None for rule in rules):
        call = call.model_copy(update={"args": tool.stated(call.args)})
    return next((rule.risk for rule in rules if rule.fits(call)), None)


@functools.lru_cache(maxsize=1_000)
def _compiled(schema: bytes) -> Validator:
    return validator(from_json(schema), "the schema of a rule")


def approval_id(thread_id: str, call: PendingCall, asked: Asked) -> str:
    """The name of exactly this call with exactly these arguments, of this thread and this moment of it: a call that is
    in doubt after it was approved once is another question."""
    what = to_json([call.key, call.attempt, call.call.name, call.call.args, call.approved, asked.in_doubt, asked.since])
    return f"{thread_id}:{hashlib.blake2b(what, digest_size=10).hexdigest()}"


def thread_of(approval: str) -> str:
    """The thread that an approval's id speaks of."""
    thread_id, colon, _ = approval.partition(":")
    if not colon or not thread_id:
        raise InvalidInput(f"{approval!r:.100} is no `approvalId`: these are in the list of what waits")
    return thread_id


def always_approved(store: Draft) -> frozenset[str]:
    """The tools whose calls need no approval in this thread any more."""
    kept = store.get(_OWNER, "always")
    return frozenset(map(str, kept)) if isinstance(kept, list) else frozenset()


def approve_always(store: Draft, tools: Iterable[str]) -> None:
    store.put(_OWNER, "always", [*sorted(always_approved(store).union(tools))])
