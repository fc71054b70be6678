"""One call of a tool, whole: events show long arguments and outputs cut. It reads, and never changes anything.

A call is found in the transcript by its id. Ids may come again, because some models count from one in every reply: the
seq of one of its events says which call is meant, else it is the latest. The result of a call whose batch has not ended
is not in the transcript yet: the run holds it, or its record among the effects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from agency.define.tools import Tool
from agency.errors import NotFound
from agency.events import EventType, json_value
from agency.messages import Message, ToolCall
from agency.redaction import shown
from agency.store import records
from agency.store.store import EVENT_TYPES, ThreadStore
from agency.thread.current_run import CurrentRun
from agency.thread.traces import CallTrace, calls_traces
from agency.turn.effects import PendingCall
from agency.turn.modes import CODE_CALLS, CODE_ORIGIN, edit_note
from agency.turn.outcomes import CallOutcome
from agency.turn.state import RetryTools, WaitingCode, WaitingSleep, WaitingTools
from agency.wire import Wire

CallStatus = Literal["waiting", "running", "success", "failure", "canceled"]

_BEFORE = "SELECT seq, at, body FROM messages WHERE at < ? AND instr(body, ?) ORDER BY seq DESC"
_AFTER = "SELECT seq, at, body FROM messages WHERE at >= ? AND instr(body, ?) ORDER BY seq"
_FOLLOWING = "SELECT body FROM messages WHERE seq > ? ORDER BY seq LIMIT ?"
_STARTED = "SELECT data FROM events WHERE run = ? AND type = ? AND instr(data, ?) ORDER BY seq DESC LIMIT 1"
_LATEST = 2**62
_REPLY_AFTER = "SELECT min(at) FROM messages WHERE seq > ? AND json_extract(body, '$.role') = 'assistant'"
_REPLY_BEFORE = "SELECT max(at) FROM messages WHERE seq < ? AND json_extract(body, '$.role') = 'assistant'"


class CallRecord(Wire):
    """A call with all of its arguments, without secrets, and what came of it. `output` is what the tool returned: a
    value where it was JSON, else text. A call that failed or was canceled has an `error` instead. While code runs, the
    arguments of its calls are as their events show them."""

    call_id: str
    tool_name: str
    args: JsonValue
    status: CallStatus
    output: JsonValue = None
    error: str | None = None
    traces: tuple[CallTrace, ...] | None = None
    """Its attempts that failed with a traceback or printed something; None for those who may not see that."""


class CallReader:
    def __init__(self, store: ThreadStore, run: CurrentRun, tools: Mapping[str, Tool]) -> None:
        self._store = store
        self._run = run
        self._tools = tools

    def find(self, call_id: str, seq: int | None = None, *, traces: bool = True) -> CallRecord:
        """The latest call of this id, or the one that the event `seq` tells of; with its `traces` or without."""
        found = self._find(call_id, seq)
        return found if traces else found.model_copy(update={"traces": None})

    def _find(self, call_id: str, seq: int | None) -> CallRecord:
        if (replied := self._in_reply(call_id, seq)) is not None:
            return replied
        running, ended = self._of_running_code(call_id), self._of_code(call_id, seq)
        found = (running or ended) if seq is None else (ended or running)
        if found is None:
            raise NotFound(f"thread {self._store.thread_id} has no call {call_id!r:.100}")
        return found

    def _in_reply(self, call_id: str, seq: int | None) -> CallRecord | None:
        """A call of a model's reply, which is in the transcript before the call's first event."""
        for number, at, message in self._naming(call_id, _BEFORE, _LATEST if seq is None else seq):
            for call in message.tool_calls:
                if call.id == call_id:
                    found = self._of_reply(call, number, len(message.tool_calls))
                    return self._traced(found, at, self._at(_REPLY_AFTER, number, _LATEST))
        return None

    def _at(self, query: str, number: int, otherwise: int) -> int:
        ((at,),) = self._store.query(query, (number,))
        return otherwise if at is None else int(str(at))

    def _traced(self, call: CallRecord, after: int, before: int) -> CallRecord:
        traces = calls_traces(self._store, call.call_id, after, before)
        return call.model_copy(update={"traces": traces})

    def _of_code(self, call_id: str, seq: int | None) -> CallRecord | None:
        """A call that executed code has made: the code's output is in the transcript after the call's last event."""
        found = self._naming(call_id, _BEFORE, _LATEST) if seq is None else self._naming(call_id, _AFTER, seq)
        for number, at, message in found:
            if (made := _made_by_code(message, call_id)) is not None:
                return self._traced(made, self._at(_REPLY_BEFORE, number, 0), at + 1)
        return None

    def _naming(self, call_id: str, query: str, seq: int) -> Iterator[tuple[int, int, Message]]:
        """The messages that name a call, with their numbers and the last events before them."""
        for number, at, body in self._store.query(query, (seq, f'"id":{to_json(call_id).decode()}')):
            yield int(str(number)), int(str(at)), Message.model_validate_json(str(body))

    def _of_reply(self, call: ToolCall, number: int, calls: int) -> CallRecord:
        """A call of a reply; the results of its calls follow it in the transcript."""
        for (body,) in self._store.query(_FOLLOWING, (number, calls)):
            result = Message.model_validate_json(str(body))
            if result.role != "tool":
                break
            if result.tool_call_id == call.id:
                return _with_result(self._shown(call), result)
        pending, outcome = self._under_way(call.id)
        return _with_outcome(self._shown(call if pending is None else pending.call), outcome)

    def _shown(self, call: ToolCall) -> ToolCall:
        tool = self._tools.get(call.name)
        return call.model_copy(update={"args": shown(call.args, () if tool is None else tool.hidden, longest=None)})

    def _under_way(self, call_id: str) -> tuple[PendingCall | None, CallOutcome | records.Began | None]:
        """What the run knows of a call of its batch."""
        state = self._run.state
        batch = state.then if isinstance(state, WaitingSleep) else state
        if not isinstance(batch, WaitingTools | RetryTools):
            return None, None
        pending = next((each for each in batch.calls if each.id == call_id), None)
        outcome: CallOutcome | records.Began | None = batch.outcomes.get(call_id)
        if isinstance(batch, WaitingTools):
            outcome = records.calls(self._store, self._run.n, batch.effect).get(call_id, outcome)
        return pending, outcome

    def _of_running_code(self, call_id: str) -> CallRecord | None:
        """A call of the code that is being executed: the transcript gets it when the code has ended."""
        state = self._run.state
        if not isinstance(state, WaitingCode):
            return None
        outcome = records.calls(self._store, self._run.n, state.effect).get(call_id)
        quoted = f'"callId":{to_json(call_id).decode()}'
        started = (self._run.n, EVENT_TYPES.index(EventType.TOOL_STARTED), quoted)
        found = [from_json(str(data)) for (data,) in self._store.query(_STARTED, started)]
        if outcome is None or not found:
            return None
        made = _with_outcome(ToolCall(id=call_id, name=found[0]["toolName"], args=found[0]["args"]), outcome)
        return self._traced(made, self._at(_REPLY_BEFORE, _LATEST, 0), _LATEST)


def _made_by_code(message: Message, call_id: str) -> CallRecord | None:
    """A call that executed code has made, as the message with the code's output tells it."""
    if message.origin != CODE_ORIGIN or not isinstance(message.meta, dict):
        return None
    for made in CODE_CALLS.validate_python(message.meta.get("calls", ())):
        if made.id == call_id:
            return _with_outcome(ToolCall(id=made.id, name=made.name, args=made.args), made.outcome)
    return None


def _with_result(call: ToolCall, result: Message) -> CallRecord:
    """A call with its result from the transcript. If a person changed its arguments, it has those that it ran with."""
    meta = result.meta if isinstance(result.meta, dict) else {}
    content = result.content
    if "edited" in meta:
        call = call.model_copy(update={"args": meta["edited"]})
        note = edit_note(meta["edited"])
        content = content.removeprefix(f"{note}\n").removesuffix(f"\n{note}")
    if "status" in meta:
        return _record(call, "canceled" if meta["status"] == "canceled" else "failure", error=content)
    return _record(call, "success", output=json_value(content) if meta.get("json") else content)


def _with_outcome(call: ToolCall, outcome: CallOutcome | records.Began | None) -> CallRecord:
    if isinstance(outcome, records.Began):
        return _record(call, "running")
    if outcome is None or outcome.status == "deferred":
        return _record(call, "waiting")
    if outcome.status == "success":
        return _record(call, "success", output=json_value(outcome.content) if outcome.is_json else outcome.content)
    return _record(call, outcome.status, error=outcome.text)


def _record(call: ToolCall, status: CallStatus, output: JsonValue = None, error: str | None = None) -> CallRecord:
    return CallRecord(call_id=call.id, tool_name=call.name, args=call.args, status=status, output=output, error=error)
