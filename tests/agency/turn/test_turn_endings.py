"""How runs end: with an answer, a tool's or code's value, a bad reply, a cancel or an abort. No call is left open."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from agency.events import EventType
from agency.messages import Usage
from agency.turn import effects as fx
from agency.turn import outcomes as out
from agency.turn import replies
from agency.turn import state as st
from tests.support.turn_driver import (
    NOW,
    REQUESTS,
    STATES,
    Run,
    call,
    event_types,
    events_of,
    failed,
    misanswered,
    ok,
    refused,
    results,
)

ALIVE = [name for name in STATES if name != "ended"]


# Replies.


@pytest.mark.parametrize("stop", ["stop", "tool_use"])
def test_a_reply_that_ended_well_goes_by_what_it_holds_not_by_its_stop_reason(stop: fx.ReplyStop) -> None:
    answered, called = Run(), Run()
    answered.replied(fx.ModelReply(text="done", stop=stop))
    called.replied(fx.ModelReply(text="", tool_calls=(call("a"),), stop=stop))

    assert answered.asked(fx.Checkpoint).kind == "before_completion"
    assert [p.id for p in called.asked(fx.CallTools).calls] == ["a"]


def warnings(effects: Sequence[fx.Effect]) -> list[str]:
    return [effect.kind for effect in effects if isinstance(effect, fx.EmitWarning)]


def test_after_an_unknown_stop_reason_the_answer_is_kept_and_the_model_goes_on_in_another_turn() -> None:
    run = Run()
    polled = run.replied(fx.ModelReply(text="half an", stop="unknown"))

    assert warnings(polled) == ["unknown_stop"]
    assert run.asked(fx.Checkpoint).kind == "after_work"
    assert [(said.role, said.content) for said in run.transcript[-2:]] == [
        ("assistant", "half an"),
        ("user", replies.ENDED_UNKNOWN),
    ]


def test_calls_of_a_reply_with_an_unknown_stop_reason_run_as_ever() -> None:
    run = Run()
    polled = run.replied(fx.ModelReply(tool_calls=(call("a"),), stop="unknown"))

    assert warnings(polled) == ["unknown_stop"]
    assert [p.id for p in run.asked(fx.CallTools).calls] == ["a"]


def test_a_provider_that_never_says_why_a_reply_ended_gets_few_more_turns() -> None:
    run = Run()
    for _ in range(replies.MAX_UNKNOWN):
        run.replied(fx.ModelReply(text="the answer", stop="unknown"))
        run.checkpoint()
    run.replied(fx.ModelReply(text="the answer", stop="unknown"))
    run.checkpoint()

    assert run.machine.outcome == out.Finished(by="assistant_message", value="the answer")


def test_unknown_stop_reasons_end_at_the_turn_limit() -> None:
    run = Run(limits=st.Limits(turns=1))
    run.replied(fx.ModelReply(text="half", stop="unknown"))
    run.checkpoint()
    run.replied(fx.ModelReply(text="all of it", stop="unknown"))  # the grace turn
    run.checkpoint()

    assert run.machine.outcome == out.Finished(by="assistant_message", value="all of it")


@pytest.mark.parametrize(
    ("stop", "reason", "code"),
    [
        ("context_overflow", "provider_error", "ERR_CONTEXT_OVERFLOW"),
        ("content_filter", "provider_error", "ERR_CONTENT_FILTER"),
        ("canceled", "canceled", "ERR_CANCELED"),
    ],
)
def test_a_reply_that_ended_badly_stops_the_run_and_nothing_of_it_is_said_or_run(
    stop: fx.ReplyStop, reason: out.StopReason, code: str
) -> None:
    run = Run()
    polled = run.replied(
        fx.ModelReply(text="half", tool_calls=(call("a"),), stop=stop, usage=Usage(input=3)), ask=("a",)
    )

    outcome = run.machine.outcome
    assert isinstance(outcome, out.Stopped)
    assert (outcome.reason, outcome.code) == (reason, code)
    assert [m.role for m in run.transcript] == ["user"]
    assert [type(effect) for effect in polled] == [fx.Emit, fx.Emit, fx.Done]
    assert run.machine.spent(run.at).usage == Usage(input=3), "it was paid for all the same"


def test_an_assistant_message_keeps_what_its_provider_needs_back() -> None:
    run = Run()
    run.replied(fx.ModelReply(text="", tool_calls=(call("a", meta={"sig": "x"}),), meta={"id": "resp-1"}))

    assert run.transcript[-1].meta == {"id": "resp-1"}
    assert run.transcript[-1].tool_calls[0].meta == {"sig": "x"}


def test_the_last_words_of_the_model_are_an_outcome_and_are_said_once() -> None:
    run = STATES["ended"]()

    assert events_of(run.polled, EventType.AGENT_COMPLETED) == [{"result": "done"}]
    assert [m.content for m in run.transcript] == ["hello", "done"]


# Control by a tool.


@pytest.mark.parametrize(
    ("control", "outcome", "event"),
    [
        (out.Finish(value=[1]), out.Finished(by="tool_value", value=[1]), EventType.AGENT_COMPLETED),
        (out.Finish(value=None), out.Finished(by="tool_value", value=None), EventType.AGENT_COMPLETED),
        (out.Handoff(thread_id="t2"), out.HandedOff(thread_id="t2"), EventType.AGENT_COMPLETED),
        (
            out.Fail(message="no"),
            out.Stopped(reason="tool_failure", code="ERR_TOOL_FAILURE", message="no"),
            EventType.AGENT_ERROR,
        ),
    ],
)
def test_a_tool_ends_the_run_and_every_call_of_its_batch_still_has_its_result(
    control: out.Control, outcome: out.TurnOutcome, event: EventType
) -> None:
    run = STATES["tools"]()
    polled = run.tools({"a": failed(), "b": ok("B", control), "c": out.Canceled()})

    assert run.machine.outcome == outcome
    assert event_types(polled) == [event]
    assert list(results(run.transcript)) == ["a", "b", "c"]
    assert misanswered(run.transcript) == []


def test_of_two_tools_that_end_the_run_the_first_called_decides() -> None:
    run = STATES["tools"]()
    run.tools({"c": ok("", out.Fail(message="no")), "b": ok("", out.Finish(value=1)), "a": ok("A")})

    assert run.machine.outcome == out.Finished(by="tool_value", value=1)


def test_tools_that_fail_do_not_end_the_run() -> None:
    run = STATES["tools"]()
    run.tools({"a": failed(), "b": failed(), "c": failed()})

    assert run.machine.outcome is None
    assert run.asked(fx.Checkpoint).kind == "after_work"


# Control by code.


def test_code_that_submits_ends_the_run_with_the_value_after_its_output_was_said() -> None:
    run = STATES["code"]()
    polled = run.code("1\n", submitted=({"n": 1},))

    assert run.machine.outcome == out.Finished(by="submitted_value", value={"n": 1})
    assert [type(effect) for effect in polled] == [fx.Progress, fx.Emit, fx.Done]
    assert run.transcript[-1].content == "Output:\n1\n"


def test_code_that_submits_nothing_at_all_has_still_submitted() -> None:
    run = STATES["code"]()
    run.code("", submitted=(None,))

    assert run.machine.outcome == out.Finished(by="submitted_value", value=None)


def test_code_that_submits_an_error_stops_the_run() -> None:
    run = STATES["code"]()
    run.code("", error="cannot be done")

    assert run.machine.outcome == out.Stopped(reason="submitted_error", code="ERR_SUBMITTED", message="cannot be done")


def test_all_blocks_of_a_reply_are_one_execution_and_other_fences_are_prose() -> None:
    run = Run(mode="code")
    run.reply("a\n```python\nx = 1\n```\nb\n```json\n{}\n```\n```py\nprint(x)\n```\n")

    assert run.asked(fx.ExecCode).code == "x = 1\n\nprint(x)\n"


def test_a_reply_without_code_or_calls_is_the_answer_in_code_mode_too() -> None:
    run = Run(mode="code")
    run.reply("The answer is ```4```.")
    run.checkpoint()

    assert run.machine.outcome == out.Finished(by="assistant_message", value="The answer is ```4```.")


def test_code_is_prose_in_tools_mode() -> None:
    run = Run()
    run.reply("```python\nprint(1)\n```")

    assert run.asked(fx.Checkpoint).kind == "before_completion"


# Cancel and abort, in every state.


@pytest.mark.parametrize("name", ALIVE)
def test_a_cancel_in_any_state_ends_the_run_and_leaves_no_call_without_a_result(name: str) -> None:
    run = STATES[name]()
    polled = run.cancel()

    assert run.machine.outcome == out.CANCELED
    assert event_types(polled)[-1] == EventType.RUN_CANCELED
    assert polled[-1] == fx.Done(outcome=out.CANCELED)
    assert misanswered(run.transcript) == []
    assert run.transcript[0].content == "hello", "what started the run is never lost"
    assert not any(isinstance(effect, REQUESTS) for effect in polled)
    assert (run.machine.outstanding, run.machine.pause_reason) == (None, None)


@pytest.mark.parametrize("name", ALIVE)
def test_an_abort_in_any_state_ends_the_run_with_its_reason_and_leaves_no_call_without_a_result(name: str) -> None:
    run = STATES[name]()
    polled = run.abort()

    assert run.machine.outcome == out.Stopped(reason="middleware_abort", code="ERR_HOOK", message="a hook failed")
    assert events_of(polled, EventType.AGENT_ERROR) == [{"code": "ERR_HOOK", "error": "a hook failed"}]
    assert isinstance(polled[-1], fx.Done)
    assert misanswered(run.transcript) == []
    assert run.transcript[0].content == "hello"


@pytest.mark.parametrize("name", ALIVE)
def test_an_answer_that_comes_after_a_cancel_is_refused(name: str) -> None:
    run = STATES[name]()
    effect = run.machine.outstanding or 1
    run.cancel()

    for late in (
        fx.ModelReplied(id=effect, at=NOW, reply=fx.ModelReply(text="late")),
        fx.ToolsAnswered(id=effect, at=NOW, outcomes={"a": ok("A"), "b": ok("B"), "c": ok("C")}),
        fx.CallSettled(id=effect, at=NOW, call_id="a", outcome=ok("A")),
        fx.CallsDecided(id=effect, at=NOW, decisions={"b": out.Approve()}),
        fx.CheckpointTaken(id=effect, at=NOW),
        fx.Woke(id=effect, at=NOW),
        fx.LimitsLifted(at=NOW, tokens=1_000),
        fx.RunCanceled(at=NOW),
    ):
        refused(run.machine, late)
    assert run.machine.poll() is None


@pytest.mark.parametrize("end", [Run.cancel, Run.abort])
def test_a_model_call_in_flight_is_called_off_by_its_id(end: Callable[[Run], list[fx.Effect]]) -> None:
    run = STATES["model"]()
    asked = run.asked(fx.CallModel)

    assert end(run)[0] == fx.CancelModel(call=asked.id)


def test_results_that_were_there_before_a_cancel_are_kept() -> None:
    run = STATES["children"]()
    run.settle("c", ok("C"))
    run.cancel()

    assert results(run.transcript) == {"a": "Canceled: the run was canceled.", "b": "B", "c": "C"}


def test_a_cancel_during_a_retry_keeps_the_results_of_the_others() -> None:
    run = STATES["tools_sleep"]()
    run.cancel()

    assert results(run.transcript) == {
        "a": "A",
        "b": "Canceled: the run was canceled.",
        "c": "Error: execution: broken",
    }


def test_a_denial_before_a_cancel_stays_a_denial() -> None:
    run = Run()
    run.reply("", call("a"), call("b"), ask=("a", "b"))
    run.decide(a=out.Deny(reason="no"))
    run.cancel()

    assert results(run.transcript)["a"].endswith("it was not run: no")
    assert results(run.transcript)["b"].startswith("Canceled")


def test_a_cancel_right_after_an_answer_comes_after_what_the_answer_led_to() -> None:
    run = STATES["tools"]()
    run.tell(fx.ToolsAnswered(id=run.batch(), at=NOW, outcomes={"a": ok("A"), "b": ok("B"), "c": out.Canceled()}))
    polled = run.cancel()

    assert [type(effect) for effect in polled] == [fx.Progress, fx.Emit, fx.Done]
    assert results(run.transcript) == {"a": "A", "b": "B", "c": "Canceled: the run was canceled."}
