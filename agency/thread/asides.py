"""Asking models aside: for hooks and tools, recorded, and charged to the run.

A reply is committed, with its cost, before the asker gets it: `ask` looks for the record first, and only what is not
recorded is asked. So a crash after that commit asks nothing again, and one before it repeats the call, as for the run's
own model calls. The run's limits and the agency's budget hold: what is used up is asked for nothing more.

A failure that may pass leads to the next model of the chain, and after the last one to a wait and another round. An
aside is part of what asks: if that is canceled, what the call has used by then is charged, and nothing is recorded.

It must never change what the run waits for: it tells the machine what was used, and nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from pydantic import BaseModel
from pydantic_core import to_json

from agency.clock import now_ms
from agency.codes import CODES
from agency.define import output as structured
from agency.define.asides import Aside, AsideQuestion, AsksNothing, Place
from agency.errors import ModelError, WrongState
from agency.messages import Message, Usage
from agency.models.interface import Capability, Meter
from agency.secrets import without_secrets
from agency.spending import NOTHING_SPENT, Spent
from agency.store import records
from agency.store.details import keep_detail
from agency.store.draft import Draft
from agency.store.store import ThreadStore
from agency.thread.current_run import Advance, CurrentRun
from agency.thread.model_calls import ModelCaller
from agency.tracebacks import stack_of
from agency.turn.chain import retry_delay
from agency.turn.effects import ModelAsked, ModelReply, Output
from agency.turn.replies import MAX_REPAIRS, WRONG_OUTPUT
from agency.wire import Wire, sayable_text

ROUNDS = 3
"""How often the models of the chain are asked in all, if they fail in a way that may pass."""

_STOPS = {
    "context_overflow": ("ERR_CONTEXT_OVERFLOW", "the question is too long for the model"),
    "content_filter": ("ERR_CONTENT_FILTER", "the provider's content filter stopped the reply"),
    "canceled": ("ERR_API", "the provider stopped the reply"),
}


class RecordedReply(Wire):
    """A reply as it is stored, with the model that gave it."""

    model: str
    reply: ModelReply
    cost_usd: float | None


class AskedAside(Wire):
    """What was asked aside and what came of it, for people who look at it later. The question is None if it is too long
    to be kept. `able` is what the model can do that shapes a request."""

    question: AsideQuestion | None
    able: tuple[Capability, ...] = ()
    reply: ModelReply | None = None
    first_token_ms: int | None = None


class Asides:
    def __init__(
        self,
        store: ThreadStore,
        run: CurrentRun,
        caller: ModelCaller,
        used_up_budget: Callable[[], Awaitable[str | None]],
        advance: Advance,
        is_alive: Callable[[], bool],
    ) -> None:
        """`used_up_budget` is the code of the agency's budget that is used up, if one is."""
        self._store = store
        self._run = run
        self._caller = caller
        self._used_up_budget = used_up_budget
        self._advance = advance
        self._is_alive = is_alive
        self._loop = asyncio.get_running_loop()

    def __reduce__(self) -> tuple[type[AsksNothing], tuple[()]]:
        """In another process, the thread cannot be reached."""
        return AsksNothing, ()

    async def ask(self, place: Place, question: AsideQuestion, output: type[BaseModel] | None) -> Aside:
        """The model's answer. It raises `ModelError` if there is none; sync tools may call it from their threads."""
        if asyncio.get_running_loop() is self._loop:
            return await self._ask(place, question, output)
        elsewhere = asyncio.run_coroutine_threadsafe(self._ask(place, question, output), self._loop)
        return await asyncio.wrap_future(elsewhere)

    async def _ask(self, place: Place, question: AsideQuestion, output: type[BaseModel] | None) -> Aside:
        if not self._run.active:
            raise WrongState("no run is in progress that the answer of a model could be charged to")
        run, spent = self._run.n, NOTHING_SPENT
        name = f"{self._run.machine.turn}.{place.name(question)}"
        wrong = Output()
        for repairs in range(MAX_REPAIRS + 1):
            said = await self._reply(run, place, f"{name}.{repairs}", question)
            spent += Spent(usage=said.reply.usage, cost_usd=said.cost_usd)
            wrong = _judged(question, said.reply, output)
            if wrong.code is None:
                return Aside(
                    text=said.reply.text,
                    value=wrong.value,
                    cut=said.reply.stop == "output_limit",
                    model=said.model,
                    usage=spent.usage,
                    cost_usd=spent.cost_usd,
                )
            question = _sent_back(question, said.reply, wrong.problem)
        raise ModelError(wrong.problem, model_code=wrong.code or "ERR_MODEL")

    async def _reply(self, run: int, place: Place, name: str, question: AsideQuestion) -> RecordedReply:
        """What is recorded, or what a model of the chain replies now."""
        if (stored := records.aside(self._store, run, name)) is not None:
            return RecordedReply.model_validate_json(stored)
        chain = self._caller.chain(question)
        for attempt in range(1, ROUNDS + 1):
            for model in chain:
                try:
                    return await self._call(run, place, name, model, question)
                except ModelError as error:
                    passed_on = error.model_code == "ERR_CAPABILITY" and model != chain[-1]
                    last = attempt == ROUNDS and model == chain[-1]
                    if last or not (error.retryable or passed_on):
                        raise
                    wait = retry_delay(attempt, error.retry_after_ms) / 1000
            left = self._run.seconds_left()
            await asyncio.sleep(wait if left is None else min(wait, left))
        raise AssertionError("the last round returns or raises")

    async def _call(self, run: int, place: Place, name: str, model: str, question: AsideQuestion) -> RecordedReply:
        """Ask one model once, and charge that, whatever comes of it."""
        await self._check_allowed()
        meter, began = Meter(began=time.monotonic()), now_ms()
        asked = AskedAside(question=question, able=self._caller.shaping(model))
        try:
            reply = await self._caller.reply_aside(model, question, (run, name), self._run.seconds_left(), meter)
        except ModelError as error:
            why = (error.model_code, without_secrets(sayable_text(str(error))))
            defect = error.__cause__ if error.model_code == "ERR_MODEL" else None
            self._charge(run, place, model, began, error.usage or meter.usage, asked, why, defect=defect)
            raise
        except asyncio.CancelledError:
            if meter.usage is not None:
                why = ("ERR_INTERRUPTED", "what asked was stopped")
                self._charge(run, place, model, began, meter.usage, asked, why)
            raise
        stopped = _STOPS.get(reply.stop)
        said = RecordedReply(model=model, reply=reply, cost_usd=self._caller.cost(model, reply.usage))
        asked = asked.model_copy(update={"reply": reply, "first_token_ms": meter.first_token_ms})
        if not self._charge(run, place, model, began, reply.usage, asked, stopped, (name, said)):
            raise WrongState("the run that was to be charged has ended")
        if stopped is not None:
            raise ModelError(stopped[1], model_code=stopped[0], usage=reply.usage)
        return said

    async def _check_allowed(self) -> None:
        """Raise `ModelError` with the code of the limit or the budget that is used up."""
        code = self._run.machine.used_up(now_ms()) or await self._used_up_budget()
        if code is not None:
            raise ModelError(CODES[code].meaning, model_code=code)

    def _charge(
        self,
        run: int,
        place: Place,
        model: str,
        began: int,
        usage: Usage | None,
        asked_aside: AskedAside,
        error: tuple[str, str] | None,
        record: tuple[str, RecordedReply] | None = None,
        *,
        defect: BaseException | None = None,
    ) -> bool:
        """Commit what a call has used, with the reply if it is one to keep; whether the run is still there."""
        if not self._is_alive() or not (self._run.active and self._run.n == run):
            return False
        draft = self._run.draft()
        if record is not None and error is None:
            records.keep_aside(draft, record[0], record[1].model_dump_json().encode())
        _keep(draft, place, asked_aside)
        if defect is not None:
            keep_detail(draft, "failed_aside", place.call_id or "", {"traceback": stack_of(defect)})
        asked = ModelAsked(
            at=now_ms(),
            took_ms=max(0, now_ms() - began),
            model=model,
            by=place.by,
            call_id=place.call_id,
            usage=usage or Usage(),
            cost_usd=0.0 if usage is None else self._caller.cost(model, usage),
            error=error,
        )
        self._advance(draft, [asked])
        return True


def _keep(draft: Draft, place: Place, asked: AskedAside) -> None:
    call = place.call_id or ""
    if not keep_detail(draft, "aside", call, asked.model_dump(mode="json", exclude_defaults=True)):
        shorter = asked.model_copy(update={"question": None, "reply": None})
        keep_detail(draft, "aside", call, shorter.model_dump(mode="json", exclude_defaults=True))


def _judged(question: AsideQuestion, reply: ModelReply, output: type[BaseModel] | None) -> Output:
    """The value of a reply that must fit a schema, or what is wrong with it."""
    if question.output is None:
        return Output()
    judged, _ = structured.judge(reply, reply.text, question.output, output, ())
    return judged or Output(code="ERR_JSON_OUTPUT_PARSE", problem="hand in one result, once")


def _sent_back(question: AsideQuestion, reply: ModelReply, problem: str) -> AsideQuestion:
    """The question again, with what was wrong about the reply."""
    said = reply.text or to_json([call.args for call in reply.tool_calls]).decode()
    told = (
        Message(role="assistant", content=said),
        Message(role="user", content=WRONG_OUTPUT.format(problem=problem)),
    )
    return question.model_copy(update={"messages": (*question.messages, *told)})
