"""The loop of a driver around a turn machine, for tests: it keeps what was polled, and its clock stands still.

`crash` is the only way a machine is brought back here: JSON bytes, `TurnCheckpoint.load`, a new `TurnMachine`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import pytest
from pydantic import JsonValue

from agency.errors import ResultMismatch
from agency.events import EventType
from agency.messages import Message, ToolCall, Usage
from agency.spending import Spent
from agency.turn import Limits, TurnCheckpoint, TurnMachine
from agency.turn import effects as fx
from agency.turn import outcomes as out
from agency.turn import state as st
from agency.turn.modes import ModeName

NOW = 1_700_000_000_000
SURFACE = fx.SurfaceRef(digest="s1", model="test-model")
HELLO = Message(id="u1", role="user", content="hello")
REQUESTS = (fx.SyncSurface, fx.CallModel, fx.CallTools, fx.ExecCode, fx.Checkpoint, fx.Sleep)
BUSY = fx.ModelFailure(code="ERR_OVERLOADED", message="busy", retryable=True)
APPROVAL = out.Deferred(waits_for="approval")
CHILD = out.Deferred(waits_for="child")

RequestT = TypeVar("RequestT", fx.SyncSurface, fx.CallModel, fx.CallTools, fx.ExecCode, fx.Checkpoint, fx.Sleep)


def call(call_id: str, name: str = "search", args: JsonValue = None, meta: JsonValue = None) -> ToolCall:
    return ToolCall(id=call_id, name=name, args={"q": call_id} if args is None else args, meta=meta)


def ok(text: str, control: out.Control | None = None) -> out.Success:
    return out.Success(content=text, control=control)


def failed(message: str = "broken") -> out.Failure:
    return out.Failure(kind="execution", message=message)


def flaky(after_ms: int = 100) -> out.Failure:
    return out.Failure(kind="unavailable", message="try again", retry="safe", after_ms=after_ms)


def user(text: str) -> Message:
    return Message(role="user", content=text)


def reloaded(stored: bytes, mode: ModeName = "tools") -> TurnMachine:
    return TurnMachine(TurnCheckpoint.load(stored), mode)


class Run:
    """One run under test. Each step feeds one input, polls until there is nothing, and returns what was polled."""

    def __init__(
        self,
        *,
        mode: ModeName = "tools",
        limits: Limits | None = None,
        messages: tuple[Message, ...] = (HELLO,),
        position: int = 0,
        run: int = 1,
        ref: fx.SurfaceRef = SURFACE,
    ) -> None:
        self.mode: ModeName = mode
        self.ref = ref
        self.at = NOW
        self.machine = TurnMachine.begin(
            run=run, at=NOW, position=position, messages=messages, limits=limits, mode=mode
        )
        self.polled: list[fx.Effect] = []
        self.request: fx.Request | None = None

    def drain(self) -> list[fx.Effect]:
        polled: list[fx.Effect] = []
        while (effect := self.machine.poll()) is not None:
            polled.append(effect)
            if isinstance(effect, REQUESTS):
                self.request = effect
        self.polled += polled
        return polled

    def tell(self, given: fx.Input) -> None:
        """Feed an input and poll nothing yet."""
        self.machine.handle(given)
        self.request = None

    def feed(self, given: fx.Input) -> list[fx.Effect]:
        self.tell(given)
        return self.drain()

    def crash(self) -> list[fx.Effect]:
        """Lose the machine, bring it back from its bytes, and return what it then hands out."""
        self.machine = reloaded(self.machine.dump(), self.mode)
        again: list[fx.Effect] = []
        while (effect := self.machine.poll()) is not None:
            again.append(effect)
        return again

    def asked(self, kind: type[RequestT]) -> RequestT:
        """The outstanding effect, which must be of this kind."""
        if self.request is None:
            self.drain()
        assert isinstance(self.request, kind), f"waits for {self.request!r}, not for {kind.__name__}"
        return self.request

    # Answers.

    def surface(self, children: Spent | None = None) -> list[fx.Effect]:
        effect = self.asked(fx.SyncSurface).id
        return self.feed(fx.SurfaceSynced(id=effect, at=self.at, surface=self.ref, children=children))

    def reply(
        self, text: str = "", *calls: ToolCall, ask: tuple[str, ...] = (), usage: Usage | None = None
    ) -> list[fx.Effect]:
        """The model answers; the surface is synced first if that is still to be done."""
        return self.replied(fx.ModelReply(text=text, tool_calls=calls, usage=usage or Usage()), ask)

    def replied(
        self,
        reply: fx.ModelReply,
        ask: tuple[str, ...] = (),
        cost_usd: float | None = 0.0,
        output: fx.Output | None = None,
        refused: dict[str, out.Settled] | None = None,
    ) -> list[fx.Effect]:
        effect = self.to_model().id
        return self.feed(
            fx.ModelReplied(
                id=effect,
                at=self.at,
                reply=reply,
                ask={name: fx.Ask() for name in ask},
                cost_usd=cost_usd,
                output=output,
                refused=refused or {},
            )
        )

    def model_fails(self, failure: fx.ModelFailure = BUSY) -> list[fx.Effect]:
        return self.feed(fx.ModelFailed(id=self.to_model().id, at=self.at, failure=failure))

    def tools(self, outcomes: Mapping[str, out.CallOutcome]) -> list[fx.Effect]:
        return self.feed(fx.ToolsAnswered(id=self.asked(fx.CallTools).id, at=self.at, outcomes=dict(outcomes)))

    def code(
        self,
        output: str,
        *,
        calls: tuple[fx.CodeCall, ...] = (),
        state: JsonValue = None,
        submitted: tuple[JsonValue] | None = None,
        error: str | None = None,
    ) -> list[fx.Effect]:
        effect = self.asked(fx.ExecCode).id
        return self.feed(
            fx.CodeRan(id=effect, at=self.at, output=output, calls=calls, state=state, submitted=submitted, error=error)
        )

    def checkpoint(self, *messages: Message) -> list[fx.Effect]:
        return self.feed(fx.CheckpointTaken(id=self.asked(fx.Checkpoint).id, at=self.at, messages=messages))

    def wake(self) -> list[fx.Effect]:
        sleep = self.asked(fx.Sleep)
        self.at = max(self.at, sleep.until)
        return self.feed(fx.Woke(id=sleep.id, at=self.at))

    # Inputs from outside.

    def decide(self, **decisions: out.Decision) -> list[fx.Effect]:
        return self.feed(fx.CallsDecided(id=self.batch(), at=self.at, decisions=decisions))

    def settle(self, call_id: str, outcome: out.Settled) -> list[fx.Effect]:
        return self.feed(fx.CallSettled(id=self.batch(), at=self.at, call_id=call_id, outcome=outcome))

    def lift(
        self,
        *,
        turns: int | None = None,
        time_ms: int | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> None:
        self.feed(fx.LimitsLifted(at=self.at, turns=turns, time_ms=time_ms, tokens=tokens, cost_usd=cost_usd))

    def cancel(self) -> list[fx.Effect]:
        return self.feed(fx.RunCanceled(at=self.at))

    def abort(self) -> list[fx.Effect]:
        return self.feed(fx.RunAborted(at=self.at, reason="middleware_abort", code="ERR_HOOK", message="a hook failed"))

    # Shortcuts.

    def to_model(self) -> fx.CallModel:
        if self.request is None:
            self.drain()
        if isinstance(self.request, fx.SyncSurface):
            self.surface()
        return self.asked(fx.CallModel)

    def turn_with_tool(self, text: str = "", usage: Usage | None = None) -> list[fx.Effect]:
        """A whole turn: one call, its result, and a checkpoint with nothing new."""
        self.reply(text, call("a"), usage=usage)
        self.tools({"a": ok("A")})
        return self.checkpoint()

    def batch(self) -> int:
        effect = self.machine.outstanding
        assert effect is not None
        return effect

    # What came of it.

    def pause(self) -> st.PauseReason | None:
        return self.machine.pause_reason

    @property
    def transcript(self) -> list[Message]:
        return [m for effect in self.polled if isinstance(effect, fx.Progress) for m in effect.messages]

    @property
    def requests(self) -> list[fx.Request]:
        return [effect for effect in self.polled if isinstance(effect, REQUESTS)]


def event_types(effects: list[fx.Effect]) -> list[EventType]:
    return [effect.event.type for effect in effects if isinstance(effect, fx.Emit)]


def events_of(effects: list[fx.Effect], kind: EventType) -> list[dict[str, JsonValue]]:
    return [dict(e.event.data) for e in effects if isinstance(e, fx.Emit) and e.event.type == kind]


def results(messages: list[Message]) -> dict[str | None, str]:
    """The text of each tool message by the call that it answers."""
    return {message.tool_call_id: message.content for message in messages if message.role == "tool"}


def misanswered(messages: list[Message]) -> list[str]:
    """What is wrong with the results in a transcript: each call has one, right after it, in the order of the calls."""
    wrong: list[str] = []
    due: list[str] = []
    for message in messages:
        if message.role != "tool":
            wrong += [f"call {call_id!r} has no result" for call_id in due]
            due = [c.id for c in message.tool_calls]
        elif due and due[0] == message.tool_call_id:
            due.pop(0)
        else:
            wrong.append(f"result of {message.tool_call_id!r} where {due} are due")
    return wrong + [f"call {call_id!r} has no result" for call_id in due]


def refused(machine: TurnMachine, given: fx.Input) -> None:
    """The machine refuses this input, keeps every byte of itself, and hands out nothing for it."""
    before = machine.dump()
    with pytest.raises(ResultMismatch):
        machine.handle(given)
    assert machine.dump() == before


# A run in each state that a machine can stand in.


def _preparing() -> Run:
    return Run()


def _prepare_turn() -> Run:
    run = _after_work()
    run.tell(fx.CheckpointTaken(id=run.asked(fx.Checkpoint).id, at=run.at))
    return run


def _surface() -> Run:
    run = Run()
    run.drain()
    return run


def _model() -> Run:
    run = Run()
    run.to_model()
    return run


def _tools() -> Run:
    run = Run()
    run.reply("", call("a"), call("b"), call("c"))
    return run


def _held() -> Run:
    run = Run()
    run.reply("", call("a"), call("b"), call("c"), ask=("b",))
    return run


def _children() -> Run:
    run = _tools()
    run.tools({"a": CHILD, "b": ok("B"), "c": CHILD})
    return run


def _approval_and_child() -> Run:
    run = _tools()
    run.tools({"a": CHILD, "b": APPROVAL, "c": ok("C")})
    return run


def _approved_beside_child() -> Run:
    run = _approval_and_child()
    run.decide(b=out.Approve())
    return run


def _code() -> Run:
    run = Run(mode="code")
    run.reply("```python\nprint(1)\n```")
    return run


def _after_work() -> Run:
    run = _tools()
    run.tools({"a": ok("A"), "b": ok("B"), "c": ok("C")})
    return run


def _before_completion() -> Run:
    run = Run()
    run.reply("done")
    return run


def _model_sleep() -> Run:
    run = Run()
    run.model_fails()
    return run


def _tools_sleep() -> Run:
    run = _tools()
    run.tools({"a": ok("A"), "b": flaky(), "c": failed()})
    return run


def _exhausted() -> Run:
    run = Run(limits=Limits(tokens=10))
    run.turn_with_tool(usage=Usage(input=10))
    return run


def _ended() -> Run:
    run = _before_completion()
    run.checkpoint()
    return run


STATES: dict[str, Callable[[], Run]] = {
    "preparing": _preparing,
    "prepare_turn": _prepare_turn,
    "surface": _surface,
    "model": _model,
    "tools": _tools,
    "held": _held,
    "children": _children,
    "approval_and_child": _approval_and_child,
    "approved_beside_child": _approved_beside_child,
    "code": _code,
    "after_work": _after_work,
    "before_completion": _before_completion,
    "model_sleep": _model_sleep,
    "tools_sleep": _tools_sleep,
    "exhausted": _exhausted,
    "ended": _ended,
}

STATE_TYPES: dict[str, type[object]] = {
    "preparing": st.Preparing,
    "prepare_turn": st.PrepareTurn,
    "surface": st.WaitingSurface,
    "model": st.WaitingModel,
    "tools": st.WaitingTools,
    "held": st.WaitingTools,
    "children": st.WaitingTools,
    "approval_and_child": st.WaitingTools,
    "approved_beside_child": st.WaitingTools,
    "code": st.WaitingCode,
    "after_work": st.WaitingCheckpoint,
    "before_completion": st.WaitingCheckpoint,
    "model_sleep": st.WaitingSleep,
    "tools_sleep": st.WaitingSleep,
    "exhausted": st.Exhausted,
    "ended": st.Ended,
}
