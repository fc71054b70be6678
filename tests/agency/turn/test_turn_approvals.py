"""Calls that wait: for a person, for a child thread, or for the rest of their batch to be let through."""

from __future__ import annotations

from itertools import permutations

import pytest

from agency.events import EventType
from agency.turn import effects as fx
from agency.turn import outcomes as out
from tests.support.turn_driver import (
    APPROVAL,
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
)

DENIED = "Error: permission_denied: a person denied this call, it was not run"


def held(*ask: str) -> Run:
    """A batch of three calls, of which a person is asked about some."""
    run = Run()
    run.reply("", call("a"), call("b"), call("c"), ask=ask)
    return run


def handed_out(run: Run) -> list[str]:
    return [pending.id for pending in run.asked(fx.CallTools).calls]


# A held batch.


def test_nothing_of_a_batch_runs_before_the_person_has_decided() -> None:
    run = held("b")

    assert run.request is None
    assert run.pause() == "hitl"
    assert event_types(run.polled)[-2:] == [EventType.HITL_INTERRUPT, EventType.RUN_PAUSED]


def test_the_interrupt_shows_the_calls_that_were_asked_about_and_no_others() -> None:
    (event,) = events_of(held("a", "c").polled, EventType.HITL_INTERRUPT)

    assert event["proposedToolCalls"] == [
        {"toolName": "search", "callId": "a", "args": {"q": "a"}},
        {"toolName": "search", "callId": "c", "args": {"q": "c"}},
    ]


def test_an_approved_batch_runs_whole_under_the_id_it_was_held_with() -> None:
    run = held("b")
    waiting = run.batch()
    polled = run.decide(b=out.Approve())

    asked = run.asked(fx.CallTools)
    assert asked.id == waiting
    assert [(p.id, p.approved) for p in asked.calls] == [("a", False), ("b", True), ("c", False)]
    assert event_types(polled) == [EventType.HITL_RESUME, EventType.RUN_RESUMED]
    assert run.pause() is None


def test_partial_decisions_wait_for_the_rest() -> None:
    run = held("a", "b", "c")
    for decision in ({"c": out.Approve()}, {"a": out.Deny()}):
        polled = run.feed(fx.CallsDecided(id=run.batch(), at=NOW, decisions=dict(decision)))
        assert event_types(polled) == [EventType.HITL_RESUME]
        assert run.request is None
        assert run.pause() == "hitl"
    run.decide(b=out.Approve())

    assert handed_out(run) == ["b", "c"]


def test_an_edited_call_runs_with_the_persons_arguments_and_the_model_is_told() -> None:
    run = held("b")
    polled = run.decide(b=out.Edit(args={"q": "safer"}))
    edited = run.asked(fx.CallTools).calls[1]
    run.tools({"a": ok("A"), "b": ok("B"), "c": ok("C")})

    assert (edited.call.args, edited.approved, edited.edited) == ({"q": "safer"}, True, True)
    assert edited.key == "1.3.b", "it is still the same call"
    assert results(run.transcript)["b"] == "(A person changed the arguments to {'q': 'safer'}.)\nB"
    assert run.transcript[1].tool_calls[1] == call("b"), "what the model said stays as it was"
    (event,) = events_of(polled, EventType.HITL_RESUME)
    assert event == {
        "approved": True,
        "decisions": {"b": "edit"},
        "modifiedToolCalls": [{"toolName": "search", "callId": "b", "args": {"q": "safer"}}],
    }


def test_an_edit_is_told_with_the_decision_that_made_it_and_not_again() -> None:
    run = held("a", "b")
    run.decide(a=out.Edit(args={"q": "safer"}))
    (event,) = events_of(run.decide(b=out.Approve()), EventType.HITL_RESUME)

    assert event == {"approved": True, "decisions": {"b": "approve"}}


def test_a_denied_call_does_not_run_and_the_model_reads_why() -> None:
    run = held("b", "c")
    polled = run.decide(b=out.Deny(reason="too dear"), c=out.Approve())
    assert handed_out(run) == ["a", "c"]
    run.tools({"a": ok("A"), "c": ok("C")})

    assert results(run.transcript) == {"a": "A", "b": f"{DENIED}: too dear", "c": "C"}
    assert [m.meta for m in run.transcript if m.role == "tool"] == [None, {"status": "failure"}, None]
    (event,) = events_of(polled, EventType.HITL_RESUME)
    assert event == {"approved": False, "decisions": {"b": "deny", "c": "approve"}}


def test_a_batch_whose_calls_are_all_denied_runs_nothing_and_the_run_goes_on() -> None:
    run = held("a", "b", "c")
    run.decide(a=out.Deny(), b=out.Deny(), c=out.Deny())

    assert results(run.transcript) == {"a": DENIED, "b": DENIED, "c": DENIED}
    assert not any(isinstance(effect, fx.CallTools) for effect in run.polled)
    assert run.asked(fx.Checkpoint).kind == "after_work"
    assert run.pause() is None


def test_calls_that_nobody_was_asked_about_run_even_if_all_others_are_denied() -> None:
    run = held("a", "b")
    run.decide(a=out.Deny(), b=out.Deny())

    assert handed_out(run) == ["c"]


@pytest.mark.parametrize(
    "decisions",
    [
        {},
        {"b": out.Approve()},
        {"a": out.Approve(), "b": out.Deny()},
        {"z": out.Deny()},
    ],
)
def test_decisions_on_calls_that_nobody_asked_about_are_refused(decisions: dict[str, out.Decision]) -> None:
    run = held("a", "c")
    refused(run.machine, fx.CallsDecided(id=run.batch(), at=NOW, decisions=decisions))


def test_a_decision_cannot_be_taken_back() -> None:
    run = held("a", "c")
    run.decide(a=out.Deny())
    refused(run.machine, fx.CallsDecided(id=run.batch(), at=NOW, decisions={"a": out.Approve()}))


def test_a_batch_is_not_answered_while_it_is_held() -> None:
    run = held("b")
    outcomes: dict[str, out.CallOutcome] = {"a": ok("A"), "b": ok("B"), "c": ok("C")}
    refused(run.machine, fx.ToolsAnswered(id=run.batch(), at=NOW, outcomes=outcomes))
    refused(run.machine, fx.ToolsAnswered(id=run.batch(), at=NOW, outcomes={}))


# Calls that ask while they run.


def test_a_call_that_asks_while_it_runs_is_run_again_alone_once_approved() -> None:
    run = STATES["tools"]()
    polled = run.tools({"a": ok("A"), "b": APPROVAL, "c": ok("C")})
    assert event_types(polled) == [EventType.HITL_INTERRUPT, EventType.RUN_PAUSED]
    run.decide(b=out.Approve())

    assert [(p.id, p.approved, p.attempt) for p in run.asked(fx.CallTools).calls] == [("b", True, 1)]
    run.tools({"b": ok("B")})
    assert results(run.transcript) == {"a": "A", "b": "B", "c": "C"}
    assert misanswered(run.transcript) == []


def test_a_call_may_ask_again_and_is_announced_again() -> None:
    run = STATES["tools"]()
    run.tools({"a": APPROVAL, "b": APPROVAL, "c": ok("C")})
    run.decide(a=out.Approve(), b=out.Deny())
    polled = run.tools({"a": APPROVAL})

    (event,) = events_of(polled, EventType.HITL_INTERRUPT)
    assert event["proposedToolCalls"] == [{"toolName": "search", "callId": "a", "args": {"q": "a"}}]
    run.decide(a=out.Deny())
    assert results(run.transcript) == {"a": DENIED, "b": DENIED, "c": "C"}


def test_calls_put_off_by_their_driver_run_when_the_person_has_decided() -> None:
    run = STATES["tools"]()
    run.tools({"a": ok("A"), "b": APPROVAL, "c": out.Deferred(waits_for="batch")})
    assert run.request is None
    run.decide(b=out.Deny())

    assert handed_out(run) == ["c"]


def test_calls_put_off_by_their_driver_while_nobody_is_asked_are_handed_out_again() -> None:
    run = STATES["tools"]()
    run.tools({"a": ok("A"), "b": ok("B"), "c": out.Deferred(waits_for="batch")})

    assert handed_out(run) == ["c"]


# Children.


@pytest.mark.parametrize("order", list(permutations("abc")))
def test_children_may_settle_in_any_order_and_results_stand_in_the_order_of_the_calls(order: tuple[str, ...]) -> None:
    run = STATES["tools"]()
    run.tools({"a": CHILD, "b": CHILD, "c": CHILD})
    assert run.pause() == "subagent"
    for call_id in order[:-1]:
        assert run.settle(call_id, ok(call_id.upper())) == []
    polled = run.settle(order[-1], ok(order[-1].upper()))

    assert event_types(polled) == [EventType.RUN_RESUMED]
    assert list(results(run.transcript).items()) == [("a", "A"), ("b", "B"), ("c", "C")]
    assert run.asked(fx.Checkpoint).kind == "after_work"


def test_a_child_settles_once_and_only_a_call_that_waits_for_one_is_settled() -> None:
    run = STATES["children"]()
    run.settle("c", out.Canceled(reason="stopped"))
    for call_id in ("b", "c", "z"):
        refused(run.machine, fx.CallSettled(id=run.batch(), at=NOW, call_id=call_id, outcome=ok("again")))
    run.settle("a", ok("A"))

    assert results(run.transcript) == {"a": "A", "b": "B", "c": "Canceled: stopped."}


def test_a_childs_result_can_end_the_run() -> None:
    run = STATES["children"]()
    run.settle("a", ok("A", out.Finish(value="from the child")))
    run.settle("c", ok("C"))

    assert run.machine.outcome == out.Finished(by="tool_value", value="from the child")


# Persons and children together.


def test_a_person_who_decides_first_leaves_the_child_to_wait_for() -> None:
    run = STATES["approval_and_child"]()
    assert run.pause() == "hitl"
    run.decide(b=out.Approve())
    assert handed_out(run) == ["b"]
    assert run.pause() is None
    run.tools({"b": ok("B")})
    assert run.pause() == "subagent"
    run.settle("a", ok("A"))

    assert results(run.transcript) == {"a": "A", "b": "B", "c": "C"}


def test_a_denial_beside_a_child_leaves_only_the_child_to_wait_for() -> None:
    run = STATES["approval_and_child"]()
    polled = run.decide(b=out.Deny())

    assert events_of(polled, EventType.RUN_PAUSED) == [{"reason": "subagent"}]
    assert run.request is None
    run.settle("a", ok("A"))
    assert results(run.transcript) == {"a": "A", "b": DENIED, "c": "C"}


def test_a_child_that_settles_first_leaves_the_person_to_wait_for() -> None:
    run = STATES["approval_and_child"]()
    assert run.settle("a", ok("A")) == []
    assert run.pause() == "hitl"
    run.decide(b=out.Approve())

    assert handed_out(run) == ["b"]


def test_a_child_that_settles_while_the_approved_call_runs_does_not_hand_that_call_out_again() -> None:
    run = STATES["approved_beside_child"]()
    assert run.settle("a", ok("A")) == []
    polled = run.feed(fx.ToolsAnswered(id=run.batch(), at=NOW, outcomes={"b": ok("B")}))

    assert [type(effect) for effect in polled] == [fx.Progress, fx.Checkpoint]
    assert results(run.transcript) == {"a": "A", "b": "B", "c": "C"}
