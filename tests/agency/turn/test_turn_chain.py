"""A chain of models: the next is asked when one fails, and what went wrong is remembered."""

from __future__ import annotations

import pytest

from agency.events import EventType
from agency.messages import Usage
from agency.spending import Spent
from agency.turn import Limits
from agency.turn import effects as fx
from agency.turn import outcomes as out
from agency.turn.chain import KEPT_FAILURES, MODEL_ATTEMPTS
from tests.support.turn_driver import BUSY, NOW, Run, call, events_of, ok

CHAIN = fx.SurfaceRef(digest="s1", model="a", fallbacks=("b", "c"), skipped=("blind",))
AUTH = fx.ModelFailure(code="ERR_AUTH", message="wrong key", request_id="req_1")


def asked(run: Run) -> str:
    return run.to_model().request.model


def test_a_retryable_failure_asks_the_next_model_at_once_with_the_same_conversation() -> None:
    run = Run(ref=CHAIN)
    first = run.to_model().request
    polled = run.model_fails()

    second = run.asked(fx.CallModel).request
    assert (first.model, second.model) == ("a", "b")
    assert (second.surface, second.upto, second.since) == (first.surface, first.upto, first.since)
    (failed,) = events_of(polled, EventType.MODEL_COMPLETED)
    assert (failed["model"], failed["next"]) == ("a", "b")
    assert "retryAt" not in failed


def test_a_crash_in_the_middle_of_a_chain_asks_the_same_model_again() -> None:
    run = Run(ref=CHAIN)
    run.model_fails()
    (again,) = run.crash()

    assert isinstance(again, fx.CallModel)
    assert again == run.request


def test_the_run_stays_with_the_model_that_answered() -> None:
    run = Run(ref=CHAIN)
    run.model_fails()
    run.reply("", call("x"))
    run.tools({"x": ok("X")})
    run.checkpoint()

    assert asked(run) == "b"
    run.ref = fx.SurfaceRef(digest="s2", model="d", fallbacks=("e",))
    run.reply("", call("y"))
    run.tools({"y": ok("Y")})
    run.checkpoint()
    assert asked(run) == "d", "a chain without it begins at its own beginning"


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_failure_that_may_not_be_tried_again_ends_the_run_under_its_own_name(failing: int) -> None:
    run = Run(ref=CHAIN)
    for _ in range(failing):
        run.model_fails()
    run.model_fails(AUTH)

    outcome = run.machine.outcome
    assert isinstance(outcome, out.Stopped)
    assert (outcome.reason, outcome.code, outcome.message) == ("provider_error", "ERR_AUTH", "wrong key")


def test_a_cancel_in_the_middle_of_a_chain_is_a_cancel() -> None:
    run = Run(ref=CHAIN)
    run.model_fails()
    run.cancel()

    assert run.machine.outcome == out.CANCELED


def test_after_the_last_model_the_chain_is_tried_again_later_from_its_beginning() -> None:
    run = Run(ref=CHAIN)
    run.model_fails()
    for _ in range(2):
        polled = run.model_fails(
            fx.ModelFailure(code="ERR_RATE_LIMIT", message="", retryable=True, retry_after_ms=9**9)
        )

    assert run.asked(fx.Sleep).until == NOW + 500, "what the others ask for does not count for the first"
    (failed,) = events_of(polled, EventType.MODEL_COMPLETED)
    assert (failed["next"], failed["retryAt"]) == ("a", "2023-11-14T22:13:20.500Z")
    run.wake()
    assert asked(run) == "a"


def limited(after_ms: int) -> fx.ModelFailure:
    return fx.ModelFailure(code="ERR_RATE_LIMIT", message="slow", retryable=True, retry_after_ms=after_ms)


def test_a_chain_sleeps_until_the_first_of_its_models_may_be_asked_again_and_asks_that_one() -> None:
    run = Run(ref=CHAIN)
    for seconds in (6, 3, 9):
        polled = run.model_fails(limited(seconds * 1_000))
    assert run.asked(fx.Sleep).until == NOW + 3_000
    (failed,) = events_of(polled, EventType.MODEL_COMPLETED)
    assert failed["next"] == "b"
    run.crash()
    run.wake()
    assert asked(run) == "b"
    run.model_fails(limited(20_000))

    assert run.asked(fx.Sleep).until == NOW + 6_000, "the third one is not bothered before its time"
    run.wake()
    assert asked(run) == "a"


def test_a_model_that_cannot_do_it_is_passed_over_and_the_last_one_says_why() -> None:
    run = Run(ref=CHAIN)
    blind = fx.ModelFailure(code="ERR_CAPABILITY", message="it takes no images")
    run.model_fails(blind)
    run.model_fails(blind)
    assert asked(run) == "c"
    run.model_fails(blind)

    outcome = run.machine.outcome
    assert isinstance(outcome, out.Stopped)
    assert outcome.code == "ERR_CAPABILITY"


def test_a_chain_that_is_exhausted_says_so_and_lists_every_attempt() -> None:
    run = Run(ref=CHAIN)
    for _ in range(MODEL_ATTEMPTS):
        for _ in range(3):
            run.model_fails()
        if run.machine.outcome is None:
            run.wake()

    outcome = run.machine.outcome
    assert isinstance(outcome, out.Stopped)
    assert outcome.code == "ERR_CHAIN_EXHAUSTED"
    tried = ["blind ERR_CAPABILITY", *["a ERR_OVERLOADED", "b ERR_OVERLOADED", "c ERR_OVERLOADED"] * MODEL_ATTEMPTS]
    assert outcome.message == f"every model of the chain failed: {', '.join(tried)}"
    assert [f"{f.model} {f.code}" for f in run.machine.failures] == tried


def test_a_single_model_that_fails_for_good_keeps_its_code() -> None:
    run = Run()
    for _ in range(MODEL_ATTEMPTS - 1):
        run.model_fails()
        run.wake()
    run.model_fails()

    outcome = run.machine.outcome
    assert isinstance(outcome, out.Stopped)
    assert outcome.code == "ERR_OVERLOADED"


def test_what_went_wrong_is_remembered_over_turns_and_crashes_with_who_when_and_why() -> None:
    run = Run(ref=CHAIN)
    run.model_fails(fx.ModelFailure(code="ERR_API", message="oh", retryable=True, request_id="req_9"))
    run.reply("", call("x"))
    run.tools({"x": ok("X")})
    run.checkpoint()
    run.at += 5
    run.model_fails()
    run.crash()

    skipped, first, second = run.machine.failures
    assert (skipped.model, skipped.code) == ("blind", "ERR_CAPABILITY")
    assert (first.model, first.turn, first.code, first.message) == ("a", 1, "ERR_API", "oh")
    assert (first.request_id, first.at) == ("req_9", NOW)
    assert (second.model, second.turn, second.at) == ("b", 2, NOW + 5)


def test_of_very_many_failures_the_latest_are_kept() -> None:
    run = Run()
    for n in range(KEPT_FAILURES + 10):
        run.model_fails(fx.ModelFailure(code=f"E{n}", message="", retryable=True, retry_after_ms=0))
        run.wake()
        run.reply("", call("x"))
        run.tools({"x": ok("X")})
        run.checkpoint()

    codes = [failure.code for failure in run.machine.failures]
    assert codes == [f"E{n}" for n in range(10, KEPT_FAILURES + 10)]


def test_a_chain_of_which_only_one_model_is_left_is_a_chain_all_the_same() -> None:
    run = Run(ref=fx.SurfaceRef(digest="s1", model="a", skipped=("blind",)))
    for _ in range(MODEL_ATTEMPTS - 1):
        run.model_fails()
        run.wake()
    run.model_fails()

    outcome = run.machine.outcome
    assert isinstance(outcome, out.Stopped)
    assert outcome.code == "ERR_CHAIN_EXHAUSTED"
    assert outcome.message.count("ERR_CAPABILITY") == 1


def test_a_limit_that_is_reached_in_the_middle_of_a_chain_pauses_the_run() -> None:
    run = Run(ref=CHAIN, limits=Limits(time_ms=1_000))
    run.to_model()
    run.at += 1_000
    run.model_fails(BUSY)

    assert run.machine.exhausted_by == "ERR_TIME_LIMIT"
    run.lift(time_ms=9_000)
    assert asked(run) == "a"


# What it costs.


def reply(**usage: int) -> fx.ModelReply:
    return fx.ModelReply(tool_calls=(call("x"),), usage=Usage(**usage))


def turn(run: Run, cost_usd: float | None, **usage: int) -> None:
    run.replied(reply(**usage), cost_usd=cost_usd)
    run.tools({"x": ok("X")})
    run.checkpoint()


def test_the_cost_adds_up_and_every_call_says_its_own() -> None:
    run = Run()
    turn(run, 0.1)
    turn(run, 0.2)

    assert run.machine.spent(run.at).cost_usd == 0.3
    costs = [(e["costUsd"], e["totalCostUsd"]) for e in events_of(run.polled, EventType.MODEL_COMPLETED)]
    assert costs == [(0.1, 0.1), (0.2, 0.3)]


def test_one_unknown_cost_makes_the_whole_unknown() -> None:
    run = Run()
    turn(run, 0.1)
    turn(run, None)
    turn(run, 0.1)

    assert run.machine.spent(run.at).cost_usd is None


def test_a_run_pauses_before_the_call_after_its_money_is_used_up_and_goes_on_with_more() -> None:
    run = Run(limits=Limits(cost_usd=0.25))
    turn(run, 0.2)
    turn(run, 0.05)
    assert run.machine.exhausted_by == "ERR_COST_LIMIT"
    run.lift(cost_usd=1.0)

    assert run.to_model().request.upto == 5
    assert run.machine.turn == 3


def test_a_limit_of_cost_pauses_a_run_whose_cost_is_unknown_and_lifting_it_takes_it_away() -> None:
    run = Run(limits=Limits(cost_usd=9.0))
    turn(run, None)
    assert run.machine.exhausted_by == "ERR_COST_UNKNOWN"
    run.lift()

    run.to_model()
    assert run.machine.limits.cost_usd is None


def test_what_children_used_counts_for_the_limits() -> None:
    run = Run(limits=Limits(tokens=100, cost_usd=1.0))
    turn(run, 0.1, input=10)
    run.surface(Spent(usage=Usage(input=90), cost_usd=0.1))
    assert run.machine.exhausted_by == "ERR_TOKEN_LIMIT"
    run.lift(tokens=1_000)
    run.surface(Spent(usage=Usage(input=90), cost_usd=0.9))
    assert run.machine.exhausted_by == "ERR_COST_LIMIT"


def test_a_budget_outside_the_run_pauses_it_before_the_model_is_asked() -> None:
    run = Run()
    run.drain()
    polled = run.feed(fx.BudgetSpent(id=run.asked(fx.SyncSurface).id, at=run.at, code="ERR_AGENCY_COST"))
    assert (run.machine.exhausted_by, run.pause()) == ("ERR_AGENCY_COST", "exhausted")
    assert events_of(polled, EventType.RUN_PAUSED) == [{"reason": "exhausted", "code": "ERR_AGENCY_COST"}]
    assert run.machine.spent(run.at).turns == 1
    run.lift()

    assert run.to_model().request.upto == 1
    assert len(events_of(run.polled, EventType.RUN_TICK)) == 1, "it is the same turn"


def test_a_turn_that_did_not_begin_is_not_counted() -> None:
    run = Run(limits=Limits(tokens=10))
    turn(run, 0.0, input=10)

    assert run.machine.exhausted_by == "ERR_TOKEN_LIMIT"
    assert run.machine.spent(run.at).turns == 1
