"""The model calls of a thread, whole: what was sent and what came back. It reads, and never changes anything.

A model call is named by the event that it began with (`model.started`), or, if a hook or a tool made it, by the event
that tells of it (`model.asked`). What was sent is put together from the surface and the messages, as it was for the
call (`model_requests`); what a hook or a tool asked aside is kept with its reply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import JsonValue
from pydantic_core import from_json

from agency.define.asides import AsideQuestion
from agency.define.system import AgentSystem
from agency.define.tools import Tool
from agency.errors import DefinitionError, NotFound
from agency.events import EventType, timestamp
from agency.messages import Message, Usage
from agency.models.interface import Capability, Model, ModelParams, ModelRequest, PromptPart, Surface, ToolSpec
from agency.models.providers.entry import Provider
from agency.models.reproduce import SpeaksHttp, as_curl, as_python
from agency.secrets import without_secrets
from agency.store.details import details, latest_detail
from agency.store.store import EVENT_TYPES, ThreadStore, run_id
from agency.thread.asides import AskedAside
from agency.thread.model_requests import (
    aside_tools_and_params,
    fitting,
    put_together,
    sent_messages,
    shaping,
    tools_and_params,
)
from agency.thread.views import for_people
from agency.wire import Wire

TOO_LONG = "what was asked aside is too long to be kept"
OLD_FILE = "an earlier release made this call, and did not keep what was sent"

_ENDS = (EventType.AGENT_COMPLETED, EventType.AGENT_ERROR, EventType.RUN_CANCELED)
_TELLING = (
    EventType.RUN_TICK,
    EventType.MODEL_STARTED,
    EventType.MODEL_RETRIED,
    EventType.MODEL_COMPLETED,
    EventType.MODEL_ASKED,
    *_ENDS,
)
_CODES = ",".join(str(EVENT_TYPES.index(each)) for each in _TELLING)
_EVENTS = f"SELECT seq, ts, type, data FROM events WHERE run = ? AND type IN ({_CODES}) ORDER BY seq"
_RUN_OF = f"SELECT run FROM events WHERE seq = ? AND type IN ({_CODES})"
_LATEST_RUN = "SELECT coalesce(max(n), 0) FROM runs"
_REPLY = "SELECT body FROM messages WHERE at >= ? AND at < ? ORDER BY seq"

Json = dict[str, JsonValue]


class ModelCallError(Wire):
    code: str
    message: str


class ModelCallSummary(Wire):
    """A model call in figures. `by` is the tool or the middleware that made it, None the run itself; `call_id` the
    call in which a tool did. Times are in milliseconds; a cost of None is unknown."""

    seq: int
    run_id: str
    turn: int
    model: str
    status: Literal["running", "success", "failure", "canceled"]
    by: str | None = None
    call_id: str | None = None
    started_at: str
    took_ms: int | None = None
    """Of the latest attempt, as `first_token_ms`: not those that were lost with their process, nor the time between."""
    first_token_ms: int | None = None
    """When the reply's text began; None if it had none, or that is not known."""
    usage: Usage | None = None
    cost_usd: float | None = None
    stop: str | None = None
    request_id: str | None = None
    """The provider's own name for it."""
    error: ModelCallError | None = None
    attempts: int = 1
    """How often it was made: again, if its process had gone away meanwhile. One that failed is a call of its own."""
    end_seq: int | None = None
    """The event with which it ended."""


class SentRequest(Wire):
    """What a model was sent. Secrets in the arguments of calls are hidden, as wherever people see them."""

    prompt: tuple[PromptPart, ...]
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    params: ModelParams


class ModelCallRecord(ModelCallSummary):
    """A model call with what was sent and what came back. Without a `request`, `missing` says why."""

    request: SentRequest | None = None
    missing: str = ""
    reply: Message | None = None
    traceback: str = ""
    """Of what the provider's code has raised, if that is a defect."""
    curl: str | None = None
    python: str | None = None
    """What makes the request again, if the provider speaks HTTP; its key is the name of a variable."""


class ModelCallReader:
    def __init__(
        self,
        store: ThreadStore,
        system: AgentSystem,
        providers: Callable[[], Mapping[str, Provider]],
        tools: Mapping[str, Tool],
    ) -> None:
        self._store = store
        self._system = system
        self._providers = providers
        self._tools = tools

    def of_run(self, run: int | None = None) -> tuple[ModelCallSummary, ...]:
        """The model calls of a run, of the latest if none is named."""
        if run is None:
            ((latest,),) = self._store.query(_LATEST_RUN)
            run = int(str(latest))
        return tuple(call for call, _ in self._calls(run))

    def find(self, seq: int) -> ModelCallRecord:
        """The model call that an event tells of."""
        rows = self._store.query(_RUN_OF, (seq,))
        calls = list(self._calls(int(str(rows[0][0])))) if rows else []
        exact = [each for each in calls if seq in (each[0].seq, each[0].end_seq)]
        for call, started in exact or (each for each in calls if _spans(each[0], seq)):
            whole = ModelCallRecord(**call.__dict__)
            return self._aside(whole) if call.by is not None else self._of_run(whole, started)
        raise NotFound(f"event {seq} of thread {self._store.thread_id} tells of no model call")

    # Figures, from events.

    def _calls(self, run: int) -> Iterator[tuple[ModelCallSummary, Json]]:
        """The calls of a run, each with the data of the event that it began with."""
        turn, attempts, since, begun = 0, 1, 0, None
        for seq, ts, code, data in self._store.query(_EVENTS, (run,)):
            kind, at, told = EVENT_TYPES[int(str(code))], int(str(ts)), from_json(str(data))
            number = int(str(seq))
            if kind == EventType.RUN_TICK:
                turn = told["step"]
            elif kind == EventType.MODEL_STARTED:
                begun, attempts, since = (number, at, told, turn), 1, at
            elif kind == EventType.MODEL_RETRIED:
                attempts, since = attempts + 1, at
            elif kind == EventType.MODEL_ASKED:
                yield self._asked(run, turn, number, at, told), told
            elif begun is not None:
                ended = self._ended(run, begun, number, told if kind == EventType.MODEL_COMPLETED else None)
                yield ended.model_copy(update={"attempts": attempts, "took_ms": max(0, at - since)}), begun[2]
                begun = None
        if begun is not None:
            yield self._begun(run, begun).model_copy(update={"attempts": attempts}), begun[2]

    def _begun(self, run: int, begun: tuple[int, int, Json, int]) -> ModelCallSummary:
        seq, at, started, turn = begun
        return ModelCallSummary(
            seq=seq,
            run_id=run_id(self._store.thread_id, run),
            turn=turn,
            model=str(started["model"]),
            status="running",
            started_at=timestamp(at),
        )

    def _ended(self, run: int, begun: tuple[int, int, Json, int], seq: int, told: Json | None) -> ModelCallSummary:
        """A call with its end; without what `model.completed` tells, the run ended before it."""
        figures = {"status": "canceled"} if told is None else _figures(told)
        return self._begun(run, begun).model_copy(update={**figures, "end_seq": seq})

    def _asked(self, run: int, turn: int, seq: int, at: int, told: Json) -> ModelCallSummary:
        took = int(str(told["durationMs"]))
        call_id = told.get("callId")
        summary = self._begun(run, (seq, at - took, told, turn))
        more = {"by": told["by"], "call_id": call_id, "took_ms": took, "end_seq": seq}
        return summary.model_copy(update={**_figures(told), **more})

    # What was sent, and what came back.

    def _of_run(self, call: ModelCallRecord, started: Json) -> ModelCallRecord:
        upto = call.end_seq or 2**62
        surface = put_together(self._store, str(started.get("surface", "")))
        traces = details(self._store, kind="model", after=call.seq, before=upto)
        found = call.model_copy(
            update={
                "reply": self._reply(call.seq, upto),
                "traceback": str(traces[-1].body["traceback"]) if traces else "",
            }
        )
        if surface is None:
            return found.model_copy(update={"missing": OLD_FILE})
        able = self._able(surface, call.model)
        tools, params = tools_and_params(surface, able, final=started.get("final") is True)
        messages = sent_messages(self._store, surface, _count(started["messages"]), _count(started["seen"]))
        return self._with_request(found, surface.prompt, fitting(messages, able), tools, params)

    def _reply(self, after: int, before: int) -> Message | None:
        """The message that came of a call, in the commit that ended it."""
        said = (Message.model_validate_json(str(body)) for (body,) in self._store.query(_REPLY, (after, before)))
        reply = next((message for message in said if message.role == "assistant"), None)
        return None if reply is None else self._shown(reply)

    def _aside(self, call: ModelCallRecord) -> ModelCallRecord:
        found = latest_detail(self._store, "aside", call.seq)
        if found is None:
            return call.model_copy(update={"missing": OLD_FILE})
        asked = AskedAside.model_validate(found.body)
        failed = details(self._store, kind="failed_aside", after=found.at, before=call.seq)
        more: dict[str, object] = {
            "traceback": str(failed[-1].body["traceback"]) if failed else "",
            "first_token_ms": asked.first_token_ms,
        }
        if (reply := asked.reply) is not None:
            said = Message(role="assistant", content=reply.text, tool_calls=reply.tool_calls, meta=reply.meta)
            more |= {"reply": self._shown(said), "stop": reply.stop, "request_id": reply.request_id}
        call = call.model_copy(update=more)
        question: AsideQuestion | None = asked.question
        if question is None:
            return call.model_copy(update={"missing": TOO_LONG})
        tools, params = aside_tools_and_params(question, asked.able)
        prompt = (PromptPart(by=call.by, text=question.system),) if question.system else ()
        return self._with_request(call, prompt, question.messages, tools, params)

    def _with_request(
        self,
        call: ModelCallRecord,
        prompt: tuple[PromptPart, ...],
        messages: Sequence[Message],
        tools: tuple[ToolSpec, ...],
        params: ModelParams,
    ) -> ModelCallRecord:
        request = SentRequest(
            prompt=tuple(part.model_copy(update={"text": without_secrets(part.text)}) for part in prompt),
            messages=tuple(self._shown(message) for message in messages),
            tools=tools,
            params=params,
        )
        return call.model_copy(update={"request": request, **self._texts(call, request)})

    def _texts(self, call: ModelCallRecord, request: SentRequest) -> Json:
        """What makes the request again."""
        found = self._model(call.model)
        if found is None or not isinstance(model := found[0], SpeaksHttp):
            return {}
        http = model.http(
            ModelRequest(
                model=found[1],
                system="\n\n".join(part.text for part in request.prompt),
                messages=request.messages,
                tools=request.tools,
                params=request.params,
                key=call.run_id,
            )
        )
        return {"curl": as_curl(http), "python": as_python(http)}

    def _able(self, surface: Surface, name: str) -> tuple[Capability, ...]:
        if surface.able is not None and name in surface.able:
            return surface.able[name]
        found = self._model(name)
        return () if found is None else shaping(*found)

    def _model(self, name: str) -> tuple[Model, str] | None:
        try:
            return self._system.model(name, self._providers())
        except DefinitionError:
            return None

    def _shown(self, message: Message) -> Message:
        """As people are shown it, and without the values of secrets."""
        told = for_people(message, self._tools)
        free = without_secrets(told.content)
        return told if free == told.content else told.model_copy(update={"content": free})


def _spans(call: ModelCallSummary, seq: int) -> bool:
    """Whether an event came while a call of the run was made: `model.retried`."""
    return call.by is None and call.seq < seq and (call.end_seq is None or seq < call.end_seq)


def _figures(told: Json) -> dict[str, object]:
    """What the end of a call tells of it."""
    match told:
        case {"error": {"code": str(code), "message": str(message)}}:
            failed = ModelCallError(code=code, message=message)
            figures: dict[str, object] = {"status": "failure", "error": failed}
        case _:
            figures = {"status": "success"}
    if isinstance(tokens := told.get("usage"), dict):
        names = ("inputTokens", "outputTokens", "cachedInputTokens", "cacheWriteTokens", "reasoningTokens")
        read, written, cached, kept, reasoning = (_count(tokens.get(name, 0)) for name in names)
        figures["usage"] = Usage(input=read, output=written, cached_input=cached, cache_write=kept, reasoning=reasoning)
    named = (("costUsd", "cost_usd"), ("stop", "stop"), ("requestId", "request_id"), ("firstTokenMs", "first_token_ms"))
    return {**figures, **{field: told[name] for name, field in named if name in told}}


def _count(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0
