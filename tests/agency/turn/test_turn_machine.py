"""The course of a run: which effects come, under which ids, in which order, and which inputs are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from agency.events import EventType
from agency.messages import Message, ToolCall, Usage
from agency.turn import Limits
from agency.turn import effects as fx
from agency.turn import outcomes as out
from tests.support.turn_driver import (
    BUSY,
    HELLO,
    NOW,
    STATES,
    SURFACE,
    Run,
    call,
    event_types,
    misanswered,
    ok,
    refused,
    results,
    user,
)

# Ids.


def test_effect_ids_count_from_1_in_every_run_one_per_request() -> None:
    for number in (1, 2, 9):
        run = Run(run=number)
        run.model_fails()
        run.wake()
        run.turn_with_tool()
        run.reply("done")
        run.checkpoint()
        assert [effect.id for effect in run.requests] == list(range(1, 10))


def test_notices_have_no_id_and_use_none_up() -> None:
    run = Run()
    run.reply("done")
    run.cancel()

    notices = [effect for effect in run.polled if effect not in run.requests]
    assert {type(effect) for effect in notices} == {fx.Emit, fx.Progress, fx.Done}
    assert not any(hasattr(effect, "id") for effect in notices)
    assert [effect.id for effect in run.requests] == [1, 2, 3]


def test_message_ids_are_made_from_the_run_and_a_counter() -> None:
    run = Run(run=4)
    run.turn_with_tool()

    assert [message.id for message in run.transcript] == ["u1", "m4.1", "m4.2"]


def test_message_ids_are_the_same_when_the_run_is_played_again() -> None:
    first, second = Run(), Run()
    for run in (first, second):
        run.reply("", call("a"), call("b"))
        run.tools({"a": ok("A"), "b": ok("B")})
        run.checkpoint(user("more"))
        run.reply("done")

    assert first.polled == second.polled
    ids = [message.id for message in first.transcript]
    assert all(ids) and len(set(ids)) == len(ids) == 6


def test_a_message_that_has_an_id_keeps_it() -> None:
    run = Run()
    run.reply("done")
    run.checkpoint(Message(id="inbox-7", role="user", content="more"), user("and more"))

    assert [message.id for message in run.transcript[-2:]] == ["inbox-7", "m1.2"]


@pytest.mark.parametrize(
    "ids",
    [
        ["a", "a"],
        ["", ""],
        ["a", "", "a", "", "a"],
        ["", "call#0"],
        ["call#1", ""],
        ["a", "a#2", "a"],
        ["a#1", "a", "a", "a#2"],
    ],
)
def test_calls_whose_ids_are_empty_or_repeated_get_distinct_ones_and_each_its_own_result(ids: list[str]) -> None:
    run = Run()
    run.reply("", *(call(call_id, args={"n": n}) for n, call_id in enumerate(ids)))
    pending = run.asked(fx.CallTools).calls

    made = [p.id for p in pending]
    assert all(made)
    assert len(set(made)) == len(ids)
    assert [p.call.args for p in pending] == [{"n": n} for n in range(len(ids))]
    run.tools({p.id: ok(f"result of {p.id}") for p in pending})
    assert misanswered(run.transcript) == []
    assert results(run.transcript) == {call_id: f"result of {call_id}" for call_id in made}


def test_call_ids_that_are_distinct_are_left_as_they_are() -> None:
    run = Run()
    run.reply("", call("b"), call("a"), call("a#1"))

    assert [p.id for p in run.asked(fx.CallTools).calls] == ["b", "a", "a#1"]


def test_calls_of_two_turns_with_the_same_id_have_different_keys() -> None:
    run = Run(run=2)
    run.turn_with_tool()
    run.reply("", call("a"))

    keys = [p.key for effect in run.requests if isinstance(effect, fx.CallTools) for p in effect.calls]
    assert keys == ["2.3.a", "2.7.a"]


# The order of effects.


def test_a_run_starts_with_its_events_then_its_messages_then_the_request_for_its_surface() -> None:
    run = Run(messages=(HELLO, user("and")))
    polled = run.drain()

    assert [type(effect) for effect in polled] == [fx.Emit, fx.Emit, fx.Progress, fx.Emit, fx.SyncSurface]
    assert event_types(polled) == [EventType.RUN_STARTED, EventType.AGENT_STARTED, EventType.RUN_TICK]
    assert [message.content for message in run.transcript] == ["hello", "and"]


def test_notices_are_polled_before_the_request_and_progress_before_the_call_that_needs_it() -> None:
    run = Run()
    run.reply("looking", call("a"))
    polled = run.tools({"a": ok("A")}) + run.checkpoint(user("more")) + run.surface()

    assert [type(effect) for effect in polled] == [
        fx.Progress,  # the results
        fx.Checkpoint,
        fx.Progress,  # the new message
        fx.Emit,  # the turn begins
        fx.SyncSurface,
        fx.Emit,  # the model begins
        fx.CallModel,
    ]


def test_a_request_is_handed_out_once() -> None:
    for name, start in STATES.items():
        run = start()
        run.drain()
        assert run.machine.poll() is None, name


def test_polling_after_the_end_gives_nothing() -> None:
    run = STATES["ended"]()

    assert [run.machine.poll() for _ in range(3)] == [None, None, None]


def test_a_run_that_ends_tells_its_new_messages_then_its_outcome_then_that_it_is_done() -> None:
    run = Run()
    run.reply("", call("a"))
    polled = run.tools({"a": ok("A", out.Finish(value=42))})

    assert [type(effect) for effect in polled] == [fx.Progress, fx.Emit, fx.Done]
    assert event_types(polled) == [EventType.AGENT_COMPLETED]
    assert polled[-1] == fx.Done(outcome=out.Finished(by="tool_value", value=42))


def test_what_middleware_saw_of_a_reply_is_told_before_what_the_reply_leads_to() -> None:
    run = Run()
    reply = fx.ModelReply(text="done")
    polled = run.feed(fx.ModelReplied(id=run.to_model().id, at=NOW, reply=reply, seen_by=("planning", "files")))

    assert event_types(polled) == [EventType.MODEL_COMPLETED] + [EventType.MIDDLEWARE_AFTER_MODEL] * 2
    assert [type(effect) for effect in polled[3:]] == [fx.Progress, fx.Checkpoint]


# The surface, and what a model call names.


def test_the_surface_is_asked_for_once_in_each_turn_even_when_the_model_is_called_again() -> None:
    run = Run()
    for _ in range(3):
        run.model_fails()
        run.wake()
        run.model_fails()
        run.wake()
        run.turn_with_tool()

    assert [effect.turn for effect in run.requests if isinstance(effect, fx.SyncSurface)] == [1, 2, 3, 4]


def test_a_model_call_names_the_surface_it_was_given_and_the_messages_since_the_last_call() -> None:
    run = Run(position=10)
    first = run.to_model().request
    run.turn_with_tool()
    effect = run.asked(fx.SyncSurface).id
    other = fx.SurfaceRef(digest="s2", model="other-model")
    run.feed(fx.SurfaceSynced(id=effect, at=NOW, surface=other))

    assert first == fx.ModelCall(surface=SURFACE, upto=11, since=10)
    assert run.asked(fx.CallModel).request == fx.ModelCall(surface=other, upto=13, since=11)


def test_usage_adds_up_over_the_calls_of_a_run() -> None:
    run = Run()
    run.turn_with_tool(usage=Usage(input=10, output=2, cached_input=4))
    run.reply("done", usage=Usage(input=20, output=3, reasoning=1))

    assert run.machine.spent(run.at).usage == Usage(input=30, output=5, cached_input=4, reasoning=1)


# Checkpoints.


def test_the_checkpoint_after_tools_is_after_work_and_the_run_goes_on_without_messages() -> None:
    run = STATES["after_work"]()
    assert run.asked(fx.Checkpoint).kind == "after_work"
    run.checkpoint()

    assert run.asked(fx.SyncSurface).turn == 2


def test_the_checkpoint_after_code_is_after_work() -> None:
    run = STATES["code"]()
    run.code("1")

    assert run.asked(fx.Checkpoint).kind == "after_work"


def test_the_checkpoint_after_an_answer_is_before_completion_and_ends_the_run_without_messages() -> None:
    run = STATES["before_completion"]()
    assert run.asked(fx.Checkpoint).kind == "before_completion"
    run.checkpoint()

    assert run.machine.outcome == out.Finished(by="assistant_message", value="done")


@pytest.mark.parametrize("name", ["after_work", "before_completion"])
def test_messages_at_any_checkpoint_join_the_transcript_and_lead_to_another_turn(name: str) -> None:
    run = STATES[name]()
    note = Message(role="system", content="note", origin="clock", transient=True)
    run.checkpoint(note, user("more"))

    assert [m.content for m in run.transcript[-2:]] == ["note", "more"]
    assert run.transcript[-2].model_copy(update={"id": ""}) == note
    assert run.asked(fx.SyncSurface).turn == 2


def test_a_checkpoint_takes_a_conversation_with_its_calls_and_results() -> None:
    run = STATES["before_completion"]()
    calls = Message(role="assistant", tool_calls=(ToolCall(id="a", name="look", args={}),))
    result = Message(role="tool", content="blue", tool_call_id="a")
    run.checkpoint(user("look"), calls, result)
    assert [m.role for m in run.transcript[-3:]] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    "strange",
    [
        Message(role="tool", content="?", tool_call_id="a"),
        Message(role="assistant", tool_calls=(ToolCall(id="a", name="look", args={}),)),
    ],
    ids=["a result without its call", "a call without its result"],
)
def test_a_checkpoint_takes_no_half_of_a_call(strange: Message) -> None:
    run = STATES["before_completion"]()
    refused(run.machine, fx.CheckpointTaken(id=run.batch(), at=NOW, messages=(user("fine"), strange)))


# Inputs that do not fit.

ACCEPTED: dict[str, set[type[object]]] = {
    "surface": {fx.SurfaceSynced},
    "model": {fx.ModelReplied, fx.ModelFailed},
    "tools": {fx.ToolsAnswered},
    "held": {fx.CallsDecided},
    "children": {fx.CallSettled},
    "approval_and_child": {fx.CallSettled, fx.CallsDecided},
    "approved_beside_child": {fx.ToolsAnswered, fx.CallSettled},
    "code": {fx.CodeRan},
    "after_work": {fx.CheckpointTaken},
    "before_completion": {fx.CheckpointTaken},
    "model_sleep": {fx.Woke},
    "tools_sleep": {fx.Woke},
    "exhausted": {fx.LimitsLifted},
}
"""What fits each state, besides RunCanceled and RunAborted, which fit all but the last."""

RUNNING = {"tools": ("a", "b", "c"), "approved_beside_child": ("b",)}


def inputs(effect: int, name: str, at: int = NOW) -> Iterator[fx.Input]:
    """One of each kind that the machine would take in the state `name`, if that takes the kind at all."""
    yield fx.SurfaceSynced(id=effect, at=at, surface=SURFACE)
    yield fx.ModelReplied(id=effect, at=at, reply=fx.ModelReply(text="hi"))
    yield fx.ModelFailed(id=effect, at=at, failure=BUSY)
    yield fx.ToolsAnswered(id=effect, at=at, outcomes={c: ok("") for c in RUNNING.get(name, ("a", "b", "c"))})
    yield fx.CodeRan(id=effect, at=at, output="")
    yield fx.CheckpointTaken(id=effect, at=at)
    yield fx.Woke(id=effect, at=at)
    yield fx.CallSettled(id=effect, at=at, call_id="a", outcome=ok("A"))
    yield fx.CallsDecided(id=effect, at=at, decisions={"b": out.Approve()})
    yield fx.LimitsLifted(at=at, tokens=1_000)


@pytest.mark.parametrize("name", STATES)
def test_an_input_of_the_wrong_kind_is_refused_and_one_of_the_right_kind_is_taken(name: str) -> None:
    effect = STATES[name]().machine.outstanding or 1
    for given in inputs(effect, name, at=NOW + 5):
        run = STATES[name]()
        before = run.machine.dump()
        if type(given) in ACCEPTED.get(name, set()):
            run.machine.handle(given)
            assert run.machine.dump() != before
            assert run.machine.checkpoint().now == NOW + 5, "its time is the machine's time"
        else:
            refused(run.machine, given)


@pytest.mark.parametrize("name", [name for name in ACCEPTED if name != "exhausted"])
@pytest.mark.parametrize("offset", [-1, 1])
def test_an_answer_with_another_id_is_refused(name: str, offset: int) -> None:
    run = STATES[name]()
    for given in inputs(run.batch() + offset, name):
        if not isinstance(given, fx.LimitsLifted):
            refused(run.machine, given)


@pytest.mark.parametrize("name", STATES)
def test_a_refused_input_is_not_followed_by_any_effect(name: str) -> None:
    run = STATES[name]()
    run.drain()
    refused(run.machine, fx.ModelReplied(id=999, at=NOW + 1, reply=fx.ModelReply(text="late")))

    assert run.machine.poll() is None


def test_nothing_can_end_a_run_that_has_ended() -> None:
    machine = STATES["ended"]().machine
    refused(machine, fx.RunCanceled(at=NOW))
    refused(machine, fx.RunAborted(at=NOW, reason="runtime_error", code="ERR_INTERNAL", message="?"))


@pytest.mark.parametrize("ids", [(), ("a",), ("a", "b"), ("a", "b", "c", "d"), ("a", "b", "d"), ("d",)])
def test_a_batch_takes_an_outcome_for_each_of_its_calls_no_more_and_no_fewer(ids: tuple[str, ...]) -> None:
    run = STATES["tools"]()
    refused(run.machine, fx.ToolsAnswered(id=run.batch(), at=NOW, outcomes={i: ok(i) for i in ids}))


def test_an_answer_that_comes_twice_is_refused_the_second_time() -> None:
    run = Run()
    asked = run.to_model()
    answer = fx.ModelReplied(id=asked.id, at=NOW, reply=fx.ModelReply(tool_calls=(call("a"),)))
    run.feed(answer)
    refused(run.machine, answer)
    results_of_a = fx.ToolsAnswered(id=run.batch(), at=NOW, outcomes={"a": ok("A")})
    run.feed(results_of_a)
    refused(run.machine, results_of_a)


def test_asking_about_a_call_that_the_reply_does_not_have_is_refused() -> None:
    run = STATES["model"]()
    reply = fx.ModelReply(tool_calls=(call("a"),))
    refused(run.machine, fx.ModelReplied(id=run.batch(), at=NOW, reply=reply, ask={"a": fx.Ask(), "z": fx.Ask()}))


# Size.


def test_what_is_stored_does_not_grow_with_the_number_of_turns() -> None:
    run = Run(limits=Limits(turns=None))
    sizes: dict[int, bytes] = {}
    while run.machine.turn <= 500:
        run.turn_with_tool("words " * 20, usage=Usage(input=1_000, output=100))
        sizes[run.machine.turn] = re.sub(rb"\d+", b"0", run.machine.dump())

    assert run.machine.turn == 501
    assert sizes[11] == sizes[501], "apart from the digits of its counters"
