"""What failed and may be tried again is: after a sleep, as a new effect, with the same request."""

from __future__ import annotations

from typing import Literal

import pytest

from agency.events import EventType
from agency.turn import effects as fx
from agency.turn import outcomes as out
from agency.turn.chain import MODEL_ATTEMPTS, retry_delay
from tests.support.turn_driver import (
    CHILD,
    Run,
    call,
    event_types,
    events_of,
    failed,
    flaky,
    misanswered,
    ok,
    results,
)


def delay(run: Run) -> int:
    return run.asked(fx.Sleep).until - run.at


def tool_runs(run: Run) -> list[list[tuple[str, str, int]]]:
    """Every hand-out of calls so far: id, key and attempt of each."""
    return [
        [(p.id, p.key, p.attempt) for p in effect.calls] for effect in run.requests if isinstance(effect, fx.CallTools)
    ]


# The model.


def test_a_failed_model_call_sleeps_and_is_made_again_with_the_same_request_under_a_new_id() -> None:
    run = Run()
    first = run.to_model()
    run.model_fails()
    run.wake()
    second = run.asked(fx.CallModel)

    assert second.request == first.request
    assert (first.id, second.id) == (2, 4)


def test_the_delays_between_model_calls_double() -> None:
    run = Run()
    delays: list[int] = []
    for _ in range(MODEL_ATTEMPTS - 1):
        run.model_fails()
        delays.append(delay(run))
        run.wake()

    assert delays == [500, 1_000, 2_000, 4_000]


def test_a_delay_grows_no_further_than_its_limit() -> None:
    assert [retry_delay(attempt, None) for attempt in (6, 7, 60)] == [16_000, 30_000, 30_000]


@pytest.mark.parametrize(("after_ms", "waits"), [(0, 500), (7, 500), (90_000, 90_000)])
def test_the_delay_is_what_the_provider_asks_for_and_no_less_than_usual(after_ms: int, waits: int) -> None:
    run = Run()
    run.model_fails(fx.ModelFailure(code="ERR_RATE_LIMIT", message="slow", retryable=True, retry_after_ms=after_ms))

    assert delay(run) == waits


def test_a_failure_that_will_be_tried_again_is_told_with_the_time() -> None:
    run = Run()
    (event,) = events_of(run.model_fails(), EventType.MODEL_COMPLETED)

    assert event == {
        "model": "test-model",
        "error": {"code": "ERR_OVERLOADED", "message": "busy"},
        "retryAt": "2023-11-14T22:13:20.500Z",
    }


def test_the_run_gives_up_after_so_many_failures_in_a_row() -> None:
    run = Run()
    for _ in range(MODEL_ATTEMPTS - 1):
        run.model_fails()
        run.wake()
    polled = run.model_fails()

    assert run.machine.outcome == out.Stopped(reason="provider_error", code="ERR_OVERLOADED", message="busy")
    assert [type(effect) for effect in run.requests].count(fx.CallModel) == MODEL_ATTEMPTS
    assert [type(effect) for effect in polled] == [fx.Emit, fx.Emit, fx.Done]


def test_a_reply_in_between_starts_the_count_of_failures_anew() -> None:
    run = Run()
    for _ in range(3):
        for _ in range(MODEL_ATTEMPTS - 1):
            run.model_fails()
            run.wake()
        run.turn_with_tool()
    run.model_fails()

    assert delay(run) == 500


def test_a_failure_that_is_not_worth_a_retry_stops_the_run_at_once() -> None:
    run = Run()
    polled = run.model_fails(fx.ModelFailure(code="ERR_AUTH", message="bad key", retry_after_ms=5))

    assert run.machine.outcome == out.Stopped(reason="provider_error", code="ERR_AUTH", message="bad key")
    assert event_types(polled) == [EventType.MODEL_COMPLETED, EventType.AGENT_ERROR]
    assert [message.role for message in run.transcript] == ["user"]


def test_each_failed_call_leaves_the_transcript_and_the_turn_as_they_were() -> None:
    run = Run()
    run.model_fails()
    run.wake()
    run.reply("done")

    assert [message.content for message in run.transcript] == ["hello", "done"]
    assert run.machine.turn == 1


# Tools.


def test_a_call_to_be_tried_again_keeps_its_key_and_counts_its_attempts_and_the_others_keep_their_results() -> None:
    run = Run(run=5)
    run.reply("", call("a"), call("b"), call("c"))
    run.tools({"a": ok("A"), "b": flaky(), "c": failed()})
    run.wake()
    run.tools({"b": flaky()})
    run.wake()
    run.tools({"b": ok("B at last")})

    assert tool_runs(run) == [
        [("a", "5.3.a", 1), ("b", "5.3.b", 1), ("c", "5.3.c", 1)],
        [("b", "5.3.b", 2)],
        [("b", "5.3.b", 3)],
    ]
    assert results(run.transcript) == {"a": "A", "b": "B at last", "c": "Error: execution: broken"}
    assert misanswered(run.transcript) == []


def test_no_result_of_a_batch_is_said_before_its_retries_are_over() -> None:
    run = Run()
    run.reply("", call("a"), call("b"))
    polled = run.tools({"a": ok("A"), "b": flaky()}) + run.wake()

    assert [type(effect) for effect in polled] == [fx.Emit, fx.Sleep, fx.CallTools]


def test_calls_to_be_tried_again_sleep_as_long_as_the_longest_of_them_asks_for() -> None:
    run = Run()
    run.reply("", call("a"), call("b"), call("c"))
    run.tools({"a": flaky(100), "b": flaky(2_500), "c": flaky(30)})

    assert delay(run) == 2_500
    run.wake()
    assert [p.id for p in run.asked(fx.CallTools).calls] == ["a", "b", "c"]


@pytest.mark.parametrize("retry", ["never", "exhausted"])
def test_a_failure_whose_policy_says_no_is_the_result(retry: Literal["never", "exhausted"]) -> None:
    run = Run()
    run.reply("", call("a"))
    run.tools({"a": out.Failure(kind="timeout", message="slow", retry=retry, after_ms=50)})

    assert results(run.transcript) == {"a": "Error: timeout: slow"}
    assert run.asked(fx.Checkpoint).kind == "after_work"


def test_a_retry_waits_until_the_children_of_its_batch_are_done() -> None:
    run = Run()
    run.reply("", call("a"), call("b"))
    run.tools({"a": CHILD, "b": flaky()})
    assert run.request is None
    run.settle("a", ok("A"))
    assert delay(run) == 100
    run.wake()

    assert tool_runs(run)[-1] == [("b", "1.3.b", 2)]


def test_a_child_that_failed_in_a_way_worth_a_retry_is_started_again() -> None:
    run = Run()
    run.reply("", call("a"))
    run.tools({"a": CHILD})
    run.settle("a", flaky(0))
    run.wake()

    assert tool_runs(run)[-1] == [("a", "1.3.a", 2)]


def test_an_approved_and_edited_call_is_still_that_when_it_is_tried_again() -> None:
    run = Run()
    run.reply("", call("a"), ask=("a",))
    run.decide(a=out.Edit(args={"q": "safer"}))
    run.tools({"a": flaky()})
    run.wake()

    (again,) = run.asked(fx.CallTools).calls
    assert (again.approved, again.edited, again.call.args) == (True, True, {"q": "safer"})


def test_a_result_that_ends_the_run_ends_it_when_the_retries_of_its_batch_are_over() -> None:
    run = Run()
    run.reply("", call("a"), call("b"))
    run.tools({"a": ok("A", out.Finish(value=1)), "b": flaky()})
    assert delay(run) == 100
    run.wake()
    run.tools({"b": ok("B")})

    assert run.machine.outcome == out.Finished(by="tool_value", value=1)
    assert misanswered(run.transcript) == []
