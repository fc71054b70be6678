"""A machine that is lost at any moment and brought back from its bytes goes on as if nothing had happened.

The first ten tests are those that lash pins its durability with, by their meaning for this machine: its `standard`
mode is `tools` here, its `rlm` mode is `code`. A checkpoint round trip is always JSON bytes and a new machine.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import JsonValue

from agency.events import EventType
from agency.messages import Message, ToolCall, Usage
from agency.turn import Limits, TurnCheckpoint
from agency.turn import effects as fx
from agency.turn import outcomes as out
from agency.turn import state as st
from tests.support.turn_driver import (
    APPROVAL,
    CHILD,
    NOW,
    STATE_TYPES,
    STATES,
    SURFACE,
    Run,
    call,
    event_types,
    failed,
    flaky,
    ok,
    refused,
    reloaded,
    results,
    user,
)

MIXED: dict[str, out.CallOutcome] = {
    "a": ok("A"),
    "b": out.Failure(kind="timeout", source="runtime", message="too slow"),
    "c": out.Canceled(reason="a sibling failed"),
}
BLOCK = "Let me see.\n```python\nrows = load()\n```\n"
TRAJECTORY: JsonValue = {"cursor": 3, "bindings": {"rows": [1, 2.5, None, "ü"]}}
TOOL_EVENTS = {EventType.TOOL_STARTED, EventType.TOOL_OUTPUT, EventType.TOOL_ERROR}


def three_calls() -> tuple[ToolCall, ToolCall, ToolCall]:
    replay: JsonValue = {"signature": "opaque==", "parts": [1, {"deep": None}]}
    return (
        call("a", args={"q": "x", "n": 10**30, "f": 0.1}, meta=replay),
        call("b", name="fetch", args=["positional", {"k": False}]),
        call("c", name="wait"),
    )


def in_batch() -> Run:
    run = Run(run=7, position=4)
    run.reply("looking", *three_calls())
    return run


def in_second_execution() -> Run:
    """A run in code mode whose first execution left a state, waiting for its second."""
    run = Run(mode="code")
    run.reply(BLOCK)
    run.code("3 rows", state=TRAJECTORY)
    run.checkpoint()
    run.reply("```python\nprint(rows)\n```")
    return run


def parallel_code_calls() -> tuple[fx.CodeCall, ...]:
    return (
        fx.CodeCall(id="k1", name="search", outcome=ok("found")),
        fx.CodeCall(id="k2", name="fetch", outcome=out.Failure(kind="external", message="404")),
        fx.CodeCall(id="k3", name="wait", outcome=out.Canceled()),
    )


# The ten.


def test_checkpoint_before_model_completion_reissues_the_same_logical_model_call() -> None:
    run = Run(run=3, position=8)
    asked = run.to_model()

    assert run.crash() == [asked]
    assert asked == fx.CallModel(id=2, request=fx.ModelCall(surface=SURFACE, upto=9, since=8))


def test_checkpoint_after_model_result_replays_checkpoint_without_second_model_call() -> None:
    run = Run()
    run.reply("the answer")
    asked = run.asked(fx.Checkpoint)

    assert run.crash() == [asked]
    run.checkpoint()
    assert [type(effect) for effect in run.requests].count(fx.CallModel) == 1
    assert run.machine.outcome == out.Finished(by="assistant_message", value="the answer")


def test_checkpoint_preserves_parallel_tool_batch_before_any_result() -> None:
    run = in_batch()
    asked = run.asked(fx.CallTools)

    assert run.crash() == [asked]
    assert [pending.call for pending in asked.calls] == list(three_calls())
    assert [pending.key for pending in asked.calls] == ["7.3.a", "7.3.b", "7.3.c"]


def test_checkpoint_after_mixed_tool_batch_results_replays_model_feedback_once() -> None:
    run = in_batch()
    run.tell(fx.ToolsAnswered(id=run.batch(), at=NOW, outcomes=dict(MIXED)))
    stored = run.machine.dump()

    run.machine = reloaded(stored)
    polled = run.drain()
    assert [type(effect) for effect in polled] == [fx.Progress, fx.Checkpoint]
    assert results(run.transcript) == {
        "a": "A",
        "b": "Error: timeout: too slow",
        "c": "Canceled: a sibling failed.",
    }
    assert run.crash() == polled[-1:], "what was polled must not come again"


def test_checkpoint_round_trips_waiting_code_with_its_mode_state() -> None:
    run = in_second_execution()
    asked = run.asked(fx.ExecCode)

    assert run.crash() == [asked]
    assert (asked.code, asked.state) == ("print(rows)\n", TRAJECTORY)
    assert isinstance(run.machine.state, st.WaitingCode)


def test_tools_mode_checkpoint_redrives_parallel_tool_batch_without_losing_calls() -> None:
    def whole(lose: Callable[[Run], object]) -> Run:
        run = in_batch()
        lose(run)
        run.tools(MIXED)
        lose(run)
        run.checkpoint()
        lose(run)
        run.reply("done")
        lose(run)
        run.checkpoint()
        return run

    lost, kept = whole(Run.crash), whole(lambda run: None)
    assert lost.polled == kept.polled
    assert lost.machine.dump() == kept.machine.dump()
    assert list(results(lost.transcript)) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("control", "outcome"),
    [
        (out.Finish(value={"rows": [1, None]}), out.Finished(by="tool_value", value={"rows": [1, None]})),
        (out.Handoff(thread_id="t2"), out.HandedOff(thread_id="t2")),
        (out.Fail(message="no"), out.Stopped(reason="tool_failure", code="ERR_TOOL_FAILURE", message="no")),
    ],
)
def test_tools_mode_checkpoint_after_tool_control_finish_preserves_terminal_outcome(
    control: out.Control, outcome: out.TurnOutcome
) -> None:
    run = in_batch()
    run.crash()
    run.tell(fx.ToolsAnswered(id=run.batch(), at=NOW, outcomes={**MIXED, "a": ok("A", control)}))

    run.machine = reloaded(run.machine.dump())
    assert [type(effect) for effect in run.drain()] == [fx.Progress, fx.Emit, fx.Done]
    assert run.polled[-1] == fx.Done(outcome=outcome)
    assert run.crash() == []
    assert run.machine.outcome == outcome


def test_code_mode_checkpoint_redrives_pending_exec_code_with_mode_state() -> None:
    run = in_second_execution()
    again = run.crash()

    assert again == [fx.ExecCode(id=run.batch(), code="print(rows)\n", state=TRAJECTORY)]
    run.code("done", submitted=([1, 2],))
    assert run.machine.outcome == out.Finished(by="submitted_value", value=[1, 2])


def test_code_mode_checkpoint_after_exec_parallel_tool_outputs_preserves_structured_outcomes() -> None:
    run = Run(mode="code")
    run.reply(BLOCK)
    ran = fx.CodeRan(id=run.batch(), at=NOW, output="3 calls", calls=parallel_code_calls(), state=TRAJECTORY)
    run.tell(ran)

    run.machine = reloaded(run.machine.dump(), "code")
    run.drain()
    meta = run.transcript[-1].meta
    assert isinstance(meta, dict) and isinstance(meta["calls"], list)
    assert [outcome_in(made) for made in meta["calls"]] == [
        ("k1", "search", "success", "found"),
        ("k2", "fetch", "failure", "404"),
        ("k3", "wait", "canceled", "the run was canceled"),
    ]
    assert TurnCheckpoint.load(run.machine.dump()).mode_state == TRAJECTORY


def outcome_in(made: JsonValue) -> tuple[JsonValue, ...]:
    """A call as the message keeps it: its id, its name, how it ended, with what words."""
    assert isinstance(made, dict)
    outcome = made["outcome"]
    assert isinstance(outcome, dict)
    words = outcome.get("content") or outcome.get("message") or outcome.get("reason")
    return made["id"], made["name"], outcome["status"], words


def test_code_mode_exec_result_stores_tool_call_ids_without_replayed_tool_events() -> None:
    run = Run(mode="code")
    run.reply(BLOCK)
    again = run.crash()
    polled = run.code("3 calls", calls=parallel_code_calls())
    again += run.crash()

    meta = run.transcript[-1].meta
    assert isinstance(meta, dict) and isinstance(meta["calls"], list)
    assert [outcome_in(made)[0] for made in meta["calls"]] == ["k1", "k2", "k3"]
    assert not TOOL_EVENTS & set(event_types(polled + again))
    assert [m.role for m in run.transcript] == ["user", "assistant", "user"], "calls of code are no tool messages"


# From the state alone: nothing of an outstanding effect is kept beside it.


@pytest.mark.parametrize("name", ["model", "tools", "code", "surface", "after_work", "model_sleep", "tools_sleep"])
def test_checkpoint_redelivers_the_waiting_effect_from_state_only(name: str) -> None:
    run = STATES[name]()
    asked = run.request

    assert TurnCheckpoint.load(run.machine.dump()).notices == []
    assert asked is not None
    assert run.crash() == [asked]
    assert run.crash() == [asked], "a second crash must not change it either"


def test_a_batch_let_through_beside_a_child_is_redelivered_without_the_calls_that_wait() -> None:
    run = STATES["approved_beside_child"]()
    asked = run.asked(fx.CallTools)

    assert [(pending.id, pending.approved) for pending in asked.calls] == [("b", True)]
    assert run.crash() == [asked]


@pytest.mark.parametrize("name", ["held", "children", "approval_and_child", "exhausted", "ended"])
def test_a_run_that_waits_for_outsiders_or_has_ended_hands_out_nothing_after_a_crash(name: str) -> None:
    run = STATES[name]()

    assert run.crash() == []
    assert run.machine.dump() == STATES[name]().machine.dump()


@pytest.mark.parametrize("name", STATES)
def test_bytes_of_every_state_come_back_as_the_same_bytes(name: str) -> None:
    run = STATES[name]()
    stored = run.machine.dump()

    machine = reloaded(stored, run.mode)
    assert isinstance(machine.state, STATE_TYPES[name])
    assert machine.state == run.machine.state
    assert machine.dump() == stored


def test_a_restored_effect_may_be_answered_without_polling_it() -> None:
    run = in_batch()
    run.machine = reloaded(run.machine.dump())
    polled = run.feed(fx.ToolsAnswered(id=run.batch(), at=NOW, outcomes=dict(MIXED)))

    assert [type(effect) for effect in polled] == [fx.Progress, fx.Checkpoint]


def test_a_child_that_settles_before_a_restored_batch_is_polled_does_not_use_up_the_redelivery() -> None:
    run = STATES["approved_beside_child"]()
    asked = run.asked(fx.CallTools)
    run.machine = reloaded(run.machine.dump())

    assert run.settle("a", ok("A")) == [asked]


def test_notices_that_were_not_polled_are_kept_and_those_that_were_are_not() -> None:
    run, same = Run(), Run()
    expected = same.drain()

    for effect in expected:
        run.machine = reloaded(run.machine.dump())
        assert run.machine.poll() == effect
    assert run.crash() == expected[-1:]


def test_a_refused_input_after_a_crash_does_not_use_up_the_redelivery() -> None:
    run = in_batch()
    asked = run.asked(fx.CallTools)
    run.machine = reloaded(run.machine.dump())

    refused(run.machine, fx.Woke(id=asked.id, at=NOW))
    assert run.drain() == [asked]


def test_a_checkpoint_taken_earlier_does_not_change_when_its_machine_goes_on() -> None:
    run = in_batch()
    taken = run.machine.checkpoint()
    before = taken.dump()
    run.tools(MIXED)

    assert taken.dump() == before


# Whole runs, lost at every single point.


def long_run_in_tools_mode(between: Callable[[Run], object]) -> Run:
    """Retries, approvals, children, new messages, used-up tokens and the grace turn, all in one run."""
    run = Run(limits=Limits(turns=3, tokens=50))
    steps: list[Callable[[], object]] = [
        run.drain,
        run.surface,
        run.model_fails,
        run.wake,
        lambda: run.reply("plan", *three_calls(), ask=("a", "b")),
        lambda: run.decide(b=out.Deny(reason="too dear")),
        lambda: run.decide(a=out.Edit(args={"q": "y"})),
        lambda: run.tools({"a": CHILD, "c": flaky(250)}),
        lambda: run.settle("a", ok("child says A")),
        run.wake,
        lambda: run.tools({"c": APPROVAL}),
        lambda: run.decide(c=out.Approve()),
        lambda: run.tools({"c": failed()}),
        lambda: run.checkpoint(user("also this")),
        lambda: run.turn_with_tool("more", usage=Usage(input=50)),
        lambda: run.lift(tokens=1_000),
        lambda: run.turn_with_tool("and more"),
        lambda: run.reply("the end"),
        run.checkpoint,
    ]
    for step in steps:
        step()
        between(run)
    return run


def long_run_in_code_mode(between: Callable[[Run], object]) -> Run:
    run = Run(mode="code")
    steps: list[Callable[[], object]] = [
        lambda: run.reply(BLOCK),
        lambda: run.code("3 rows", calls=parallel_code_calls(), state=TRAJECTORY),
        lambda: run.checkpoint(Message(role="system", content="hurry", origin="clock")),
        lambda: run.reply("", call("a")),
        lambda: run.tools({"a": ok("A")}),
        run.checkpoint,
        lambda: run.reply("```py\nsubmit(rows)\n```"),
        lambda: run.code("", submitted=(None,)),
    ]
    for step in steps:
        step()
        between(run)
    return run


@pytest.mark.parametrize("whole", [long_run_in_tools_mode, long_run_in_code_mode])
def test_a_run_lost_after_every_answer_gives_the_effects_of_one_that_was_never_lost(
    whole: Callable[[Callable[[Run], object]], Run],
) -> None:
    lost, kept = whole(Run.crash), whole(lambda run: None)

    assert kept.machine.outcome is not None
    assert lost.polled == kept.polled
    assert lost.machine.dump() == kept.machine.dump()


# How a reply or a checkpoint ends a run, across a crash.


def test_a_reply_that_did_not_fit_the_context_stops_the_run_and_is_not_part_of_the_transcript() -> None:
    run = Run()
    asked = run.to_model()
    run.crash()
    run.tell(fx.ModelReplied(id=asked.id, at=NOW, reply=fx.ModelReply(text="half a", stop="context_overflow")))

    run.machine = reloaded(run.machine.dump())
    run.drain()
    outcome = run.machine.outcome
    assert isinstance(outcome, out.Stopped)
    assert (outcome.reason, outcome.code) == ("provider_error", "ERR_CONTEXT_OVERFLOW")
    assert [message.role for message in run.transcript] == ["user"]


def test_messages_at_the_last_checkpoint_resume_the_run_with_another_model_call() -> None:
    run = Run()
    run.reply("done")
    run.crash()
    run.checkpoint(user("not yet"))
    run.crash()

    assert run.to_model().request.upto == 3
    assert [message.content for message in run.transcript] == ["hello", "done", "not yet"]
    assert run.machine.turn == 2


def test_the_answer_that_waits_at_the_last_checkpoint_is_the_outcome_after_a_crash() -> None:
    run = Run()
    run.reply("the answer")
    run.crash()

    assert run.checkpoint()[-1] == fx.Done(outcome=out.Finished(by="assistant_message", value="the answer"))


def test_the_first_surface_and_that_of_a_later_turn_are_asked_for_again_after_a_crash() -> None:
    run = Run()
    run.drain()
    assert run.crash() == [fx.SyncSurface(id=1, turn=1)]
    run.surface()
    run.turn_with_tool()
    assert run.crash() == [fx.SyncSurface(id=5, turn=2)]
