"""What a run may use: turns, with a grace turn after the last; time and tokens, with a pause that can be lifted."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from agency.events import EventType
from agency.messages import Message, Usage
from agency.turn import Limits, TurnCheckpoint
from agency.turn import effects as fx
from agency.turn import outcomes as out
from agency.turn.limits import LAST_TURN
from tests.support.turn_driver import (
    BUSY,
    CHILD,
    NOW,
    STATES,
    Run,
    call,
    event_types,
    events_of,
    misanswered,
    ok,
    refused,
    results,
    user,
)


def finals(run: Run) -> list[bool]:
    """For each model call of the run, whether it was the last that the model gets."""
    return [effect.request.final for effect in run.requests if isinstance(effect, fx.CallModel)]


def in_grace_turn(turns: int = 2) -> Run:
    run = Run(limits=Limits(turns=turns))
    for _ in range(turns):
        run.turn_with_tool()
    return run


def stop_code(run: Run) -> str | None:
    outcome = run.machine.outcome
    return outcome.code if isinstance(outcome, out.Stopped) else None


# Turns.


@pytest.mark.parametrize("turns", [1, 2, 5])
def test_a_run_gets_its_turns_and_then_one_more_without_tools(turns: int) -> None:
    run = in_grace_turn(turns)
    run.to_model()

    assert finals(run) == [False] * turns + [True]


def test_the_model_is_told_before_its_grace_turn_that_it_is_the_last() -> None:
    run = in_grace_turn()

    assert run.transcript[-1].model_copy(update={"id": ""}) == Message(
        role="system", content=LAST_TURN, origin="limits"
    )
    assert run.to_model().request.upto == len(run.transcript)


def test_an_answer_in_the_grace_turn_is_the_outcome() -> None:
    run = in_grace_turn()
    run.reply("as far as I got")
    run.checkpoint()

    assert run.machine.outcome == out.Finished(by="assistant_message", value="as far as I got")


def test_an_answer_in_the_last_normal_turn_needs_no_grace_turn() -> None:
    run = Run(limits=Limits(turns=1))
    run.reply("done")
    run.checkpoint()

    assert run.machine.outcome == out.Finished(by="assistant_message", value="done")
    assert finals(run) == [False]


def test_tool_calls_in_the_grace_turn_are_refused_with_a_result_each_and_the_run_waits_for_more_turns() -> None:
    run = in_grace_turn()
    before = len(run.transcript)
    polled = run.reply("one more", call("x"), call("y"), ask=("y",))

    said = run.transcript[before:]
    assert [m.role for m in said] == ["assistant", "tool", "tool"]
    assert misanswered(run.transcript) == []
    assert set(results(said).values()) == {"Error: resource_limit: the run's turns are used up"}
    assert not any(isinstance(effect, fx.CallTools) for effect in polled)
    assert run.machine.exhausted_by == "ERR_MAX_TURNS"
    assert events_of(polled, EventType.RUN_PAUSED) == [{"reason": "exhausted", "code": "ERR_MAX_TURNS"}]


def test_a_message_after_the_answer_of_the_grace_turn_gets_no_further_model_call() -> None:
    run = in_grace_turn()
    run.reply("as far as I got")
    run.checkpoint(user("go on"))

    assert run.machine.outcome is not None
    assert len(finals(run)) == 3


def test_a_run_without_a_turn_limit_never_gets_a_grace_turn() -> None:
    run = Run(limits=Limits(turns=None))
    for _ in range(150):
        run.turn_with_tool()

    assert not any(finals(run))


def test_retries_of_the_model_use_no_turn() -> None:
    run = Run(limits=Limits(turns=1))
    run.model_fails()
    run.wake()

    assert run.machine.turn == 1
    assert finals(run) == [False, False]


# Tokens and time.


def test_a_run_pauses_before_the_turn_after_its_tokens_are_used_up() -> None:
    run = Run(limits=Limits(tokens=100))
    run.turn_with_tool(usage=Usage(input=90, output=9))
    polled = run.turn_with_tool(usage=Usage(output=1))

    assert events_of(polled, EventType.RUN_PAUSED) == [{"reason": "exhausted", "code": "ERR_TOKEN_LIMIT"}]
    assert (run.machine.pause_reason, run.machine.exhausted_by) == ("exhausted", "ERR_TOKEN_LIMIT")
    assert run.request is None


def test_a_run_pauses_before_the_turn_after_its_time_is_used_up() -> None:
    run = Run(limits=Limits(time_ms=1_000))
    run.reply("", call("a"))
    run.at += 1_000
    run.tools({"a": ok("A")})
    run.checkpoint()

    assert run.machine.exhausted_by == "ERR_TIME_LIMIT"
    assert run.machine.remaining_ms(run.at) == 0


def test_a_run_that_has_just_not_used_its_limits_up_goes_on() -> None:
    run = Run(limits=Limits(time_ms=1_000, tokens=100))
    run.at += 999
    run.turn_with_tool(usage=Usage(input=99))

    assert run.asked(fx.SyncSurface).turn == 2
    assert run.machine.remaining_ms(run.at) == 1


def test_an_answer_counts_even_if_it_used_the_limits_up() -> None:
    run = Run(limits=Limits(tokens=1, time_ms=1))
    run.to_model()
    run.at += 50
    run.reply("done", usage=Usage(input=5_000))
    run.checkpoint()

    assert run.machine.outcome == out.Finished(by="assistant_message", value="done")


def test_a_lifted_limit_lets_the_run_go_on_where_it_paused() -> None:
    run = STATES["exhausted"]()
    run.lift(tokens=20)

    assert run.machine.limits == Limits(tokens=20)
    assert run.machine.pause_reason is None
    assert run.asked(fx.SyncSurface) == fx.SyncSurface(id=5, turn=2)
    assert event_types(run.polled)[-2:] == [EventType.RUN_RESUMED, EventType.RUN_TICK]


def test_a_limit_that_was_not_lifted_far_enough_pauses_the_run_again() -> None:
    run = STATES["exhausted"]()
    run.lift(tokens=10)
    assert run.machine.exhausted_by == "ERR_TOKEN_LIMIT"
    run.lift(time_ms=50_000)
    assert run.machine.exhausted_by == "ERR_TOKEN_LIMIT"
    run.lift(tokens=11)
    assert run.machine.exhausted_by is None


def test_one_limit_lifted_leaves_the_others_as_they_were() -> None:
    run = Run(limits=Limits(turns=7, time_ms=60_000, tokens=10))
    run.turn_with_tool(usage=Usage(input=10))
    run.lift(tokens=99)

    assert run.machine.limits == Limits(turns=7, time_ms=60_000, tokens=99)


def test_a_run_that_waits_for_its_limits_can_be_canceled() -> None:
    run = STATES["exhausted"]()
    run.cancel()

    assert run.machine.outcome == out.CANCELED
    assert run.machine.exhausted_by is None


@pytest.mark.parametrize("lifted", [{"turns": 0}, {"time_ms": 0}, {"tokens": 0}, {"tokens": -5}])
def test_a_limit_is_not_lifted_to_a_value_that_no_run_could_be_stored_with(lifted: dict[str, int]) -> None:
    run = STATES["exhausted"]()
    refused(run.machine, fx.LimitsLifted(at=NOW, **lifted))
    TurnCheckpoint.load(run.machine.dump())


def test_turns_lifted_in_the_grace_turn_take_it_back() -> None:
    run = Run(limits=Limits(turns=1, tokens=10))
    run.turn_with_tool(usage=Usage(input=10))
    assert run.machine.exhausted_by == "ERR_TOKEN_LIMIT"
    run.lift(turns=5, tokens=1_000)

    assert run.to_model().request.final is False


# What time counts.


def test_time_counts_while_the_run_works_and_stands_still_while_it_waits_for_somebody() -> None:
    run = Run()
    run.at += 100
    run.reply("", call("a"), call("b"), ask=("b",))
    run.at += 10_000
    run.decide(b=out.Approve())
    run.at += 20
    run.tools({"a": CHILD, "b": ok("B")})
    run.at += 10_000
    run.settle("a", ok("A"))
    run.at += 3

    assert run.machine.spent(run.at).active_ms == 123


def test_time_stands_still_while_a_run_waits_for_its_limits() -> None:
    run = Run(limits=Limits(time_ms=1_000))
    run.to_model()
    run.at += 1_500
    run.turn_with_tool()
    run.at += 99_999
    assert run.machine.spent(run.at).active_ms == 1_500
    run.lift(time_ms=2_000)

    assert run.machine.remaining_ms(run.at) == 500


def test_time_stands_still_after_the_end() -> None:
    run = Run()
    run.at += 70
    run.cancel()

    assert run.machine.spent(run.at + 5_000).active_ms == 70


def test_a_clock_that_goes_backwards_takes_no_time_back() -> None:
    run = Run(limits=Limits(time_ms=1_000))
    run.to_model()
    run.at += 1_000
    run.reply("", call("a"))
    run.at = NOW - 5_000
    run.tools({"a": ok("A")})
    run.checkpoint()

    assert run.machine.exhausted_by == "ERR_TIME_LIMIT"


@pytest.mark.parametrize("retryable", [True, False])
def test_a_model_call_that_failed_when_the_time_was_used_up_is_made_again_once_there_is_time(retryable: bool) -> None:
    run = Run(limits=Limits(time_ms=1_000))
    run.to_model()
    run.at += 1_000
    polled = run.model_fails(fx.ModelFailure(code="ERR_TIME_LIMIT", message="time", retryable=retryable))

    failure: JsonValue = {"code": "ERR_TIME_LIMIT", "message": "time"}
    assert events_of(polled, EventType.MODEL_COMPLETED) == [{"model": "test-model", "error": failure}]
    assert run.machine.exhausted_by == "ERR_TIME_LIMIT"
    run.lift(time_ms=5_000)
    assert run.to_model().request.upto == 1
    assert run.machine.turn == 1


def test_time_that_runs_out_in_a_retrys_sleep_pauses_the_run() -> None:
    run = Run(limits=Limits(time_ms=400))
    run.model_fails()
    run.wake()

    assert run.machine.exhausted_by == "ERR_TIME_LIMIT"


def test_a_transient_message_is_shown_again_if_the_only_call_that_showed_it_failed() -> None:
    run = Run(limits=Limits(time_ms=1_000))
    run.reply("", call("a"))
    run.tools({"a": ok("A")})
    run.checkpoint(Message(role="system", content="only once", transient=True))
    first = run.to_model().request
    assert first.since < first.upto
    run.at += 1_000
    run.model_fails(BUSY)
    run.lift(time_ms=5_000)

    assert run.to_model().request.since == first.since
