"""Replies that are no answer yet: cut off at the output limit, too large a request, or a result that does not fit."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from agency.events import EventType
from agency.turn import Limits
from agency.turn import effects as fx
from agency.turn import outcomes as out
from agency.turn.chain import MAX_OVERFLOWS
from agency.turn.replies import CUT_BEFORE_WORDS, CUT_CALLS, CUT_OFF, HANDED_IN, MAX_CUT, MAX_REPAIRS
from tests.support.turn_driver import Run, call, events_of, misanswered, ok, results, user

WRONG = fx.Output(code="ERR_JSON_OUTPUT_SCHEMA", problem="$.n: 'x' is not of type 'integer'")


def cut(text: str, *calls: str) -> fx.ModelReply:
    return fx.ModelReply(text=text, tool_calls=tuple(call(each) for each in calls), stop="output_limit")


def said(run: Run) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in run.transcript[1:]]


def test_a_reply_that_was_cut_off_is_kept_and_the_model_goes_on() -> None:
    run = Run()
    run.replied(cut("It was a dark "))
    run.crash()
    assert run.to_model().request.upto == 3
    run.reply("and stormy night.")
    run.checkpoint()

    assert said(run) == [("assistant", "It was a dark "), ("user", CUT_OFF), ("assistant", "and stormy night.")]
    assert run.machine.outcome == out.Finished(by="assistant_message", value="It was a dark and stormy night.")
    assert run.machine.spent(run.at).turns == 1


def test_a_reply_that_is_cut_off_again_and_again_ends_the_run() -> None:
    run = Run()
    for n in range(MAX_CUT):
        run.replied(cut(f"{n}"))
        assert run.machine.outcome is None
    run.replied(cut("end"))

    outcome = run.machine.outcome
    assert isinstance(outcome, out.Stopped)
    assert (outcome.reason, outcome.code) == ("incomplete", "ERR_MAX_TOKENS")


def test_a_whole_reply_begins_the_count_anew() -> None:
    run = Run()
    for _ in range(MAX_CUT):
        run.replied(cut("half"))
    run.reply("", call("x"))
    run.tools({"x": ok("X")})
    run.checkpoint()
    run.replied(cut("half "))
    run.reply("whole")
    run.checkpoint()

    assert run.machine.outcome == out.Finished(by="assistant_message", value="half whole")


def test_calls_of_a_reply_that_was_cut_off_do_not_run_and_the_model_is_told() -> None:
    run = Run()
    polled = run.replied(cut("I will search.", "a", "b"), ask=("a",))

    assert not [effect for effect in polled if isinstance(effect, fx.CallTools)]
    assert said(run) == [("assistant", "I will search."), ("user", CUT_CALLS)]
    assert misanswered(run.transcript) == []
    run.reply("", call("a"))
    assert [p.id for p in run.asked(fx.CallTools).calls] == ["a"]


def test_a_model_that_was_cut_off_before_it_spoke_is_told_to_be_brief() -> None:
    run = Run()
    run.replied(cut(" "))

    assert said(run) == [("user", CUT_BEFORE_WORDS)]


def test_a_block_of_code_that_was_cut_off_is_executed_whole() -> None:
    run = Run(mode="code")
    run.replied(cut("```python\nprint("))
    run.reply("1)\n```")

    assert run.asked(fx.ExecCode).code == "print(1)\n"


def test_a_cut_off_reply_is_continued_in_the_grace_turn_as_well() -> None:
    run = Run(limits=Limits(turns=1))
    run.reply("", call("x"))
    run.tools({"x": ok("X")})
    run.checkpoint()
    assert run.to_model().request.final
    run.replied(cut("so "))
    assert run.to_model().request.final
    run.reply("far")
    run.checkpoint()

    assert run.machine.outcome == out.Finished(by="assistant_message", value="so far")


# Too large a request.

LARGE = fx.ModelFailure(code="ERR_CONTEXT_OVERFLOW", message="too long")
ROOM_MADE = fx.ModelFailure(code="ERR_CONTEXT_OVERFLOW", message="too long", room_made=True)


def test_a_request_that_is_too_large_is_planned_anew_when_room_was_made() -> None:
    run = Run()
    polled = run.model_fails(ROOM_MADE)

    assert isinstance(run.request, fx.SyncSurface)
    (failed,) = events_of(polled, EventType.MODEL_COMPLETED)
    assert failed["next"] == "test-model"
    run.reply("short")
    run.checkpoint()
    assert run.machine.outcome == out.Finished(by="assistant_message", value="short")
    assert run.machine.spent(run.at).turns == 1


def test_a_request_that_stays_too_large_ends_the_run_with_a_clear_code() -> None:
    run, other = Run(), Run()
    other.model_fails(LARGE)
    for _ in range(MAX_OVERFLOWS + 1):
        run.model_fails(ROOM_MADE)

    for one in (run, other):
        outcome = one.machine.outcome
        assert isinstance(outcome, out.Stopped)
        assert outcome.code == "ERR_CONTEXT_OVERFLOW"


# Results that must fit a schema.


@pytest.mark.parametrize("value", [{"n": 1}, [1], "x", None, 0])
def test_a_result_that_fits_is_the_outcome(value: JsonValue) -> None:
    run = Run()
    run.replied(fx.ModelReply(text="…"), output=fx.Output(value=value))
    run.crash()
    run.checkpoint()

    assert run.machine.outcome == out.Finished(by="structured_output", value=value)


def test_a_result_that_does_not_fit_is_sent_back_with_what_is_wrong() -> None:
    run = Run()
    run.replied(fx.ModelReply(text='{"n": "x"}'), output=WRONG)
    run.checkpoint()
    assert [role for role, _ in said(run)] == ["assistant", "user"]
    assert WRONG.problem in run.transcript[-1].content
    run.replied(fx.ModelReply(text='{"n": 1}'), output=fx.Output(value={"n": 1}))
    run.checkpoint()

    assert run.machine.outcome == out.Finished(by="structured_output", value={"n": 1})
    assert run.machine.spent(run.at).turns == 2


def test_after_two_repairs_a_result_that_does_not_fit_ends_the_run() -> None:
    run = Run()
    for _ in range(MAX_REPAIRS):
        run.replied(fx.ModelReply(text="?"), output=WRONG)
        run.checkpoint()
    run.crash()
    run.replied(fx.ModelReply(text="?"), output=WRONG)

    outcome = run.machine.outcome
    assert isinstance(outcome, out.Stopped)
    assert (outcome.reason, outcome.code, outcome.message) == ("invalid_output", WRONG.code, WRONG.problem)
    assert run.transcript[-1].role == "assistant"


def test_a_result_handed_in_by_a_call_gets_its_answer_there() -> None:
    run = Run()
    wrong = fx.Output(code=WRONG.code, problem=WRONG.problem, call="r1")
    run.replied(fx.ModelReply(tool_calls=(call("r1", "submit_result"),)), output=wrong)
    run.checkpoint()
    run.replied(fx.ModelReply(tool_calls=(call("r2", "submit_result"),)), output=fx.Output(value={"n": 1}, call="r2"))
    run.checkpoint()

    assert run.machine.outcome == out.Finished(by="structured_output", value={"n": 1})
    assert misanswered(run.transcript) == []
    assert results(run.transcript) == {"r1": f"Error: invalid_request: {WRONG.problem}", "r2": HANDED_IN}


def test_a_result_handed_in_in_the_grace_turn_counts_and_a_wrong_one_is_not_repaired() -> None:
    outcomes = []
    for output in (fx.Output(value=1, call="r"), fx.Output(code="ERR_JSON_OUTPUT_SCHEMA", problem="no", call="r")):
        run = Run(limits=Limits(turns=1))
        run.reply("", call("x"))
        run.tools({"x": ok("X")})
        run.checkpoint()
        run.replied(fx.ModelReply(tool_calls=(call("r", "submit_result"),)), output=output)
        if run.machine.outcome is None:
            run.checkpoint()
        assert misanswered(run.transcript) == []
        outcomes.append(run.machine.outcome)

    assert outcomes[0] == out.Finished(by="structured_output", value=1)
    assert isinstance(outcomes[1], out.Stopped)


def test_what_is_said_after_a_result_asks_for_another() -> None:
    run = Run()
    run.replied(fx.ModelReply(text="1"), output=fx.Output(value=1))
    run.checkpoint(user("not that one"))
    run.replied(fx.ModelReply(text="2"), output=fx.Output(value=2))
    run.checkpoint()

    assert run.machine.outcome == out.Finished(by="structured_output", value=2)


def test_calls_that_are_refused_get_their_result_and_the_others_run() -> None:
    run = Run()
    refusal = out.Failure(kind="invalid_request", source="policy", message="alone")
    polled = run.replied(fx.ModelReply(tool_calls=(call("a"), call("r", "submit_result"))), refused={"r": refusal})
    assert [p.id for p in run.asked(fx.CallTools).calls] == ["a"]
    assert [e["callId"] for e in events_of(polled, EventType.TOOL_ERROR)] == ["r"]
    run.crash()
    run.tools({"a": ok("A")})

    assert misanswered(run.transcript) == []
    assert results(run.transcript) == {"a": "A", "r": refusal.text}
