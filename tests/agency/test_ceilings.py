"""The owner's policy and limits, and an agency's: what is in effect is never milder than the owner's."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import pytest
from pydantic import JsonValue

from agency.approvals.ceilings import layered, milder
from agency.approvals.rules import NO_POLICY, Policy, Rule
from agency.messages import ToolCall
from agency.turn.outcomes import OnTimeout, Risk
from agency.turn.state import NO_CEILING, Limits, RunCeiling

CALL = ToolCall(id="c1", name="charge", args={"cents": 500})
RANKS = {None: -1, "low": 0, "medium": 1, "high": 2}
LARGE: dict[str, JsonValue] = {"properties": {"cents": {"minimum": 100}}}
SMALL: dict[str, JsonValue] = {"properties": {"cents": {"maximum": 99}}}

OWNERS = [
    (),
    (Rule(risk="high"),),
    (Rule(tool="charge", risk="low"), Rule(risk="high")),
    (Rule(tool="charge", when=LARGE, risk="medium"), Rule(risk="low")),
]
AGENCYS = [
    (),
    (Rule(risk="low"),),
    (Rule(tool="charge", when=SMALL, risk="low"), Rule(tool="charge", risk="high")),
    (Rule(tool="charge", risk="low"),),
]
DEADLINES: list[dict[str, Any]] = [
    {}, *({"timeout_ms": ms, "on_timeout": then} for ms, then in product((1_000, 5_000), get_args(OnTimeout)))
]  # fmt: skip


@pytest.mark.parametrize(("owners", "agencys"), list(product(OWNERS, AGENCYS)))
def test_no_call_is_less_risky_than_the_owner_says(owners: tuple[Rule, ...], agencys: tuple[Rule, ...]) -> None:
    both = layered(Policy(rules=owners), Policy(rules=agencys))
    said: list[Risk | None] = [Policy(rules=each).risk_of(CALL, None) for each in (owners, agencys)]
    assert both.risk_of(CALL, None) == max(said, key=lambda risk: RANKS[risk])
    if Policy(rules=owners).asks(CALL, None) is not None:
        assert both.asks(CALL, None) is not None


@pytest.mark.parametrize(("owners", "agencys"), list(product(DEADLINES, DEADLINES)))
def test_no_call_that_the_owner_asks_for_is_decided_by_the_clock_in_a_milder_way(
    owners: dict[str, Any], agencys: dict[str, Any]
) -> None:
    rule = (Rule(risk="high"),)
    owner, agency = Policy(rules=rule, **owners), Policy(rules=rule, **agencys)
    asked = layered(owner, agency).asks(CALL, None)
    assert asked is not None
    if asked.timeout_ms is not None and asked.on_timeout == "approve":
        assert owner.timeout_ms is not None and owner.on_timeout == "approve"
        assert asked.timeout_ms >= owner.timeout_ms
    if owner.timeout_ms is not None and owner.on_timeout == "deny":
        assert asked.timeout_ms is not None and asked.timeout_ms <= owner.timeout_ms
        assert asked.on_timeout == "deny"


def test_what_only_the_agency_asks_for_is_decided_as_it_says() -> None:
    owner = Policy(rules=(Rule(tool="refund", risk="high"),))
    both = layered(owner, Policy(rules=(Rule(tool="charge", risk="high"),), timeout_ms=9, on_timeout="approve"))
    asked = both.asks(CALL, None)
    assert asked is not None and (asked.timeout_ms, asked.on_timeout) == (9, "approve")
    asked = both.asks(CALL.model_copy(update={"name": "refund"}), None)
    assert asked is not None and asked.timeout_ms is None
    assert both.asks(CALL.model_copy(update={"name": "look"}), None) is None


def test_an_agency_can_have_a_person_asked_though_the_owner_approves_when_time_is_over() -> None:
    owner = Policy(timeout_ms=1_000, on_timeout="approve")
    asked = layered(owner, Policy(rules=(Rule(tool="charge", risk="high"),))).asks(CALL, None)
    assert asked is not None and (asked.timeout_ms, asked.on_timeout) == (None, "deny")


def test_one_policy_alone_is_what_it_was() -> None:
    mine = Policy(rules=OWNERS[2], timeout_ms=5)
    assert layered(mine, NO_POLICY) is mine and layered(NO_POLICY, mine) is mine
    assert layered(NO_POLICY, NO_POLICY) == NO_POLICY


@pytest.mark.parametrize(
    ("owner", "agency", "said"),
    [
        (Policy(rules=(Rule(risk="high"),)), Policy(rules=AGENCYS[3]), "cannot make charge low"),
        (Policy(rules=(Rule(risk="high"),)), Policy(rules=(Rule(when=LARGE, risk="medium"),)), "cannot make"),
        (Policy(rules=(Rule(tool="charge", risk="low"), Rule(risk="high"))), Policy(rules=AGENCYS[3]), None),
        (Policy(rules=(Rule(when=LARGE, risk="high"),)), Policy(rules=AGENCYS[1]), None),  # it counts for small ones
        (Policy(timeout_ms=5), Policy(timeout_ms=6), "cannot be more"),
        (Policy(timeout_ms=5), Policy(timeout_ms=5), None),
        (Policy(timeout_ms=5), Policy(timeout_ms=4, on_timeout="approve"), "only be 'deny'"),
        (Policy(rules=OWNERS[1]), Policy(timeout_ms=4, on_timeout="approve"), "only be 'deny'"),
        (Policy(timeout_ms=5, on_timeout="approve"), Policy(timeout_ms=4, on_timeout="approve"), "cannot be less"),
        (Policy(timeout_ms=5, on_timeout="approve"), Policy(timeout_ms=9, on_timeout="deny"), None),
        (NO_POLICY, Policy(timeout_ms=4, on_timeout="approve"), None),
    ],
)  # fmt: skip
def test_what_is_plainly_milder_is_told(owner: Policy, agency: Policy, said: str | None) -> None:
    found = milder(owner, agency)
    assert found is None if said is None else said in str(found)


def test_limits_are_the_smaller_of_each() -> None:
    ceiling = RunCeiling(turns=10, cost_usd=1.5)
    assert ceiling.over(Limits()) == Limits(turns=10, cost_usd=1.5)
    assert ceiling.over(Limits(turns=3, tokens=7, cost_usd=None)) == Limits(turns=3, tokens=7, cost_usd=1.5)
    assert ceiling.over(Limits(turns=None)).turns == 10
    assert NO_CEILING.over(Limits(turns=3, time_ms=4)) == Limits(turns=3, time_ms=4)
