"""The policies of an installation's owner and of an agency, as one: the owner's holds whatever the agency says.

Of each policy the first rule that fits a call says how risky it is, and the higher of the two risks counts. So an
agency can have more calls asked for, and none of the owner's fewer. About calls that the owner's rules ask for, no
decision of the clock is milder than the owner's:

    owner        agency       without a person's decision
    deny after   deny after   denied, after the shorter time
    deny after   approve      denied, after the owner's time
    approve      deny after   denied, after the agency's time
    approve      approve      approved, after the longer time
    (for ever)   approve      waits for ever

A call that only the agency's rules ask for waits for a person, unless the agency says otherwise or the owner denies.
"""

from __future__ import annotations

from agency.approvals.rules import ANY_TOOL, NO_POLICY, Policy, Rule
from agency.approvals.tools import GuardedTool
from agency.messages import ToolCall
from agency.turn.effects import Ask
from agency.turn.outcomes import OnTimeout, Risk

_RANKS: dict[Risk, int] = {"low": 0, "medium": 1, "high": 2}

Deadline = tuple[int | None, OnTimeout]


class LayeredPolicy(Policy):
    """Both policies. `rules` are those of the owner and then those of the agency; which one counts, its methods say."""

    owner: Policy
    agency: Policy

    def risk_of(self, call: ToolCall, tool: GuardedTool | None) -> Risk | None:
        found = [each.risk_of(call, tool) for each in (self.owner, self.agency)]
        return max((risk for risk in found if risk is not None), key=lambda risk: _RANKS[risk], default=None)

    def asks(self, call: ToolCall, tool: GuardedTool | None) -> Ask | None:
        risk = self.risk_of(call, tool)
        if risk is None or risk == "low":
            return None
        if self.owner.asks(call, tool) is None:
            return self.ask(risk)
        timeout_ms, on_timeout = _deadline(self.owner, self.agency, owner_asks=True)
        return Ask(risk=risk, timeout_ms=timeout_ms, on_timeout=on_timeout)


def layered(owner: Policy, agency: Policy) -> Policy:
    """What is in effect where the owner and the agency have each said this."""
    if NO_POLICY in (owner, agency):
        return owner if agency == NO_POLICY else agency
    timeout_ms, on_timeout = _deadline(owner, agency, owner_asks=False)
    return LayeredPolicy(
        rules=(*owner.rules, *agency.rules), timeout_ms=timeout_ms, on_timeout=on_timeout, owner=owner, agency=agency
    )


def _deadline(owner: Policy, agency: Policy, *, owner_asks: bool) -> Deadline:
    if agency.timeout_ms is None:
        waits = not owner_asks and owner.on_timeout == "approve"  # for a person: the agency asks, and says nothing else
        return (None, "deny") if waits else (owner.timeout_ms, owner.on_timeout)
    if owner.timeout_ms is None:
        milder = owner_asks and agency.on_timeout == "approve"
        return (None, "deny") if milder else (agency.timeout_ms, agency.on_timeout)
    if owner.on_timeout != agency.on_timeout:
        return owner.timeout_ms if owner.on_timeout == "deny" else agency.timeout_ms, "deny"
    stricter = min if owner.on_timeout == "deny" else max
    return stricter(owner.timeout_ms, agency.timeout_ms), owner.on_timeout


def milder(owner: Policy, agency: Policy) -> str | None:
    """What of an agency's policy is plainly milder than the owner's, in words; None if nothing is."""
    for rule in agency.rules:
        over = next((each for each in owner.rules if _covers(each, rule)), None)
        if over is not None and _RANKS[rule.risk] < _RANKS[over.risk]:
            return f"the owner's policy has {over.tool} as {over.risk}, so a rule cannot make {rule.tool} {rule.risk}"
    if agency.timeout_ms is None or (not owner.rules and owner.timeout_ms is None):
        return None
    if agency.on_timeout == "approve":
        if owner.timeout_ms is None or owner.on_timeout == "deny":
            return "by the owner's policy no call is approved because time is over: `onTimeout` can only be 'deny'"
        if agency.timeout_ms < owner.timeout_ms:
            return f"by the owner's policy calls are approved after {owner.timeout_ms} ms: `timeoutMs` cannot be less"
    elif owner.timeout_ms is not None and owner.on_timeout == "deny" and agency.timeout_ms > owner.timeout_ms:
        return f"by the owner's policy calls are denied after {owner.timeout_ms} ms: `timeoutMs` cannot be more"
    return None


def _covers(owner: Rule, agency: Rule) -> bool:
    """Whether the owner's rule fits every call that the agency's fits."""
    return owner.tool in (ANY_TOOL, agency.tool) and owner.when in (None, agency.when)
