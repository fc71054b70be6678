"""Asking the model: the transcript and the surface of the next call, and one call from request to reply.

The surface says what is asked, of which models; how it is put to the one whose turn it is, by what that one can do.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from pydantic_core import to_json

from agency.define import output
from agency.define.asides import AsideQuestion
from agency.define.blueprint import Blueprint
from agency.define.hooks import Plan
from agency.define.options import NO_OPTIONS, RunOptions
from agency.define.system import AgentSystem
from agency.define.tools import Tool
from agency.errors import DefinitionError, ModelError
from agency.json_schema import Schema
from agency.messages import Message, ToolCall, Usage
from agency.models.interface import (
    Capability,
    Meter,
    Model,
    ModelRequest,
    OnDelta,
    Surface,
    capabilities,
    described,
)
from agency.models.providers.entry import Provider
from agency.store import records
from agency.store.draft import Draft
from agency.store.store import ThreadStore, run_id
from agency.thread.model_requests import (
    SHAPING,
    aside_tools_and_params,
    fitting,
    has_images,
    latest_surface,
    not_yet_seen,
    shaping,
    taken_apart,
    tools_and_params,
    with_note,
)
from agency.thread.workers import TimedOut, is_ours, within
from agency.tracebacks import log_failure
from agency.turn.batch import distinct
from agency.turn.effects import REPLY_STOPS, CallModel, ModelCall, ModelReply, Output, SurfaceRef
from agency.turn.modes import MODES
from agency.turn.outcomes import Settled
from agency.wire import sayable, sayable_text

log = logging.getLogger(__name__)

ALL_CAPABILITIES: frozenset[Capability] = frozenset(get_args(Capability))


class ModelCaller:
    def __init__(
        self,
        store: ThreadStore,
        system: AgentSystem,
        blueprint: Blueprint,
        providers: Callable[[], Mapping[str, Provider]],
    ) -> None:
        """`providers` are those of the installation and the agency, as they are now."""
        self._store = store
        self._system = system
        self._blueprint = blueprint
        self._providers = providers
        self.output: Schema | None = None
        """What the run's result must fit."""
        self.options: RunOptions = NO_OPTIONS
        """What the run has in the place of the blueprint's."""
        self.meter = Meter()
        """What the call that is being made has used so far."""
        self._transcript: list[Message] | None = None  # read once, when a model is first called
        self._has_transient = False
        self._surface: tuple[SurfaceRef, Surface] | None = None
        self._planned: object = None  # what the surface was made from: comparing that is cheaper than making it
        self._pieces: dict[str, bytes] = {}  # what it is stored as
        self._stored = ""  # the digest of the one that is on disk
        self._staged: tuple[Draft, str] | None = None  # the draft that puts another one there

    def load_surface(self) -> None:
        """Take up the surface of a call that was under way."""
        if (latest := latest_surface(self._store)) is not None:
            digest, surface = latest
            self._surface, self._stored = (_ref(surface, digest), surface), digest

    def committed(self, draft: Draft) -> None:
        """Its messages are part of the transcript now, and its surface is on disk."""
        if self._staged is not None and self._staged[0] is draft:
            self._stored, self._staged = self._staged[1], None
        if self._transcript is not None and draft.messages:
            self._transcript += draft.messages
            self._has_transient = self._has_transient or any(message.transient for message in draft.messages)

    def plan(self, tools: Mapping[str, Tool]) -> Plan:
        """The next call as the blueprint and the run's options have it."""
        blueprint = self._blueprint
        return Plan(
            model=self.options.model or blueprint.model or self._system.default_model,
            tools=dict(tools),
            messages=self._store.message_count,
            system=[blueprint.prompt],
            params=self.options.params_over(blueprint.params),
        )

    def check_options(self, options: RunOptions, *, handed_down: bool) -> None:
        """Refuse options that a run of the agent cannot have."""
        self._system.check_options(self._blueprint, options, self._providers(), handed_down=handed_down)

    def fix_surface(self, draft: Draft, plan: Plan) -> SurfaceRef:
        """Settle what the model is asked with; it is stored when it differs from the last time."""
        tools, forgotten, providers = tuple(plan.tools.values()), (plan.forgotten, plan.note), self._providers()
        key = (plan.model, tuple(plan.system), tools, plan.params, self.output, forgotten, providers)
        if self._surface is None or self._planned != key:
            surface = self._new_surface(plan)
            digest, self._pieces = taken_apart(surface)
            self._surface, self._planned = (_ref(surface, digest), surface), key
        if (digest := self._surface[0].digest) != self._stored:
            records.save_surface(draft, digest, self._pieces)
            self._staged = (draft, digest)
        return self._surface[0]

    def _new_surface(self, plan: Plan) -> Surface:
        able: list[str] = []
        skipped: list[str] = []
        for choice in self._system.chain(plan.model):
            needed = {*choice.requires, *self._blueprint.requires}
            (able if needed <= self._abilities(choice.model) else skipped).append(choice.model)
        if not able:
            message = f"none of {', '.join(skipped)} can do all that is required"
            raise ModelError(message, model_code="ERR_CAPABILITY")
        return plan.surface(able, skipped, self.output, {name: self.shaping(name) for name in able})

    def shaping(self, name: str) -> tuple[Capability, ...]:
        """What a model can do that shapes a request; what cannot be asked says so when it is asked."""
        try:
            return shaping(*self._system.model(name, self._providers()))
        except DefinitionError:
            return SHAPING

    def _abilities(self, name: str) -> frozenset[Capability]:
        """What a model can do; what cannot be asked says so when it is asked."""
        try:
            model, name = self._system.model(name, self._providers())
        except DefinitionError:
            return ALL_CAPABILITIES
        return capabilities(model, name)

    async def reply(self, call: CallModel, run: int, seconds_left: float | None, on_delta: OnDelta) -> ModelReply:
        """Ask. Whatever goes wrong is a `ModelError`."""
        self.meter = meter = Meter(began=time.monotonic())

        def deltas(delta: str) -> None:
            meter.text_came()
            on_delta(sayable_text(delta))

        return distinct(await self._respond(call.request.model, lambda: self._request(call, run), seconds_left, deltas))

    async def reply_aside(
        self, name: str, question: AsideQuestion, place: tuple[int, str], seconds_left: float | None, meter: Meter
    ) -> ModelReply:
        """Ask a model aside, in the same way. `place` is the run, and the question's name in it."""
        return await self._respond(
            name, lambda: self._aside(name, question, place, meter), seconds_left, lambda _: meter.text_came()
        )

    async def _respond(
        self,
        name: str,
        prepare: Callable[[], tuple[Model, ModelRequest]],
        seconds_left: float | None,
        on_delta: OnDelta,
    ) -> ModelReply:
        try:
            model, request = prepare()
            answer = model.respond(request, on_delta)
            return _checked(await (answer if seconds_left is None else within(seconds_left, answer)))
        except ModelError:
            raise
        except TimedOut as error:
            raise ModelError("the run's time is used up", model_code="ERR_TIME_LIMIT") from error
        except DefinitionError as error:
            raise ModelError(str(error), model_code="ERR_CONFIG") from error
        except BaseException as error:
            if is_ours(error):
                raise
            log_failure(log, f"model {name} failed in thread {self._store.thread_id}", error)
            raise ModelError(f"{type(error).__name__}: {error}", model_code="ERR_MODEL") from error

    def chain(self, question: AsideQuestion) -> list[str]:
        """The models that a question aside is put to, the first choice first."""
        wanted = self._system.chain(question.model or self.options.model or self._blueprint.model)
        able = [each.model for each in wanted if {*each.requires} <= self._abilities(each.model)]
        if not able:
            raise ModelError("no model of the chain can do all that is required", model_code="ERR_CAPABILITY")
        return able

    def cost(self, model_name: str, usage: Usage) -> float | None:
        """What a call cost, in US dollars; None is unknown."""
        try:
            model, name = self._system.model(model_name, self._providers())
            known = described(model)
            return None if known is None else known.cost(name, usage)
        except Exception:  # a user's provider may raise anything; the reply is kept all the same
            log.exception("the cost of a call of %s is not known", model_name)
            return None

    def judge(self, reply: ModelReply, said: str) -> tuple[Output | None, dict[str, Settled]]:
        """What a reply comes to as the run's result, if that must fit a schema; and the calls that do not run."""
        text = said + reply.text
        if self.output is None or MODES[self._blueprint.mode].goes_on(reply, text):
            return None, {}
        try:
            return output.judge(reply, text, self.output, self._system.output_model(self.output), self.offered())
        except Exception as error:  # a pydantic model may do whatever it likes, and the reply is paid for
            log.exception("the result of thread %s cannot be checked", self._store.thread_id)
            return Output(code="ERR_JSON_OUTPUT_SCHEMA", problem=f"it cannot be checked: {error}"), {}

    def offered(self) -> Collection[str]:
        """The names of the tools that the latest call offered."""
        return self._surface[1].tool_names if self._surface is not None else ()

    def _request(self, call: CallModel, run: int) -> tuple[Model, ModelRequest]:
        wanted = call.request
        assert self._surface is not None and self._surface[0] == wanted.surface
        surface = self._surface[1]
        model, name = self._system.model(wanted.model, self._providers())
        able = shaping(model, name) if surface.able is None else surface.able[wanted.model]
        messages = fitting(self._messages(wanted, surface), able)
        if "images" not in able and has_images(messages):
            raise ModelError(f"{wanted.model} takes no images", model_code="ERR_CAPABILITY")
        tools, params = tools_and_params(surface, able, final=wanted.final)
        return model, ModelRequest(
            model=name,
            system=surface.system,
            messages=messages,
            tools=tools,
            params=params,
            key=f"{run_id(self._store.thread_id, run)}.{call.id}",
            agent=self._blueprint.name,
            thread_id=self._store.thread_id,
            run_id=run_id(self._store.thread_id, run),
            meter=self.meter,
        )

    def _aside(
        self, name: str, question: AsideQuestion, place: tuple[int, str], meter: Meter
    ) -> tuple[Model, ModelRequest]:
        run = run_id(self._store.thread_id, place[0])
        model, name = self._system.model(name, self._providers())
        tools, params = aside_tools_and_params(question, shaping(model, name))
        request = ModelRequest(
            model=name,
            system=question.system,
            messages=question.messages,
            tools=tools,
            params=params,
            key=f"{run}.{place[1]}",
            agent=self._blueprint.name,
            thread_id=self._store.thread_id,
            run_id=run,
            meter=meter,
        )
        return model, request

    def _messages(self, wanted: ModelCall, surface: Surface) -> Sequence[Message]:
        if self._transcript is None:
            self._transcript = self._store.messages()
            self._has_transient = any(message.transient for message in self._transcript)
        first = surface.forgotten
        shown = self._transcript[first : wanted.upto]
        if self._has_transient:
            shown = not_yet_seen(shown, first, wanted.since)
        return with_note(surface, shown)


def _checked(reply: ModelReply) -> ModelReply:
    """The reply, as what a `ModelReply` promises; a provider of one's own may get it wrong."""
    if not isinstance(reply, ModelReply):
        raise TypeError(f"respond() must return a ModelReply, not {type(reply).__name__}")
    wrong = [name for name, kind in _REPLY_FIELDS.items() if not isinstance(getattr(reply, name), kind)]
    if wrong or not all(isinstance(call, ToolCall) for call in reply.tool_calls) or reply.stop not in REPLY_STOPS:
        raise TypeError(f"respond() returned a ModelReply with wrong values: {reply!r:.500}")
    if reply.meta is not None:
        to_json(reply.meta)
    text, calls = sayable_text(reply.text), tuple(_sayable(call) for call in reply.tool_calls)
    return reply if text == reply.text and calls == reply.tool_calls else replace(reply, text=text, tool_calls=calls)


def _sayable(call: ToolCall) -> ToolCall:
    said = {"id": sayable_text(call.id), "name": sayable_text(call.name)}
    more = {"args": sayable(call.args), "meta": sayable(call.meta)}
    unchanged = (call.id, call.name, call.args, call.meta) == (*said.values(), *more.values())
    return call if unchanged else call.model_copy(update={**said, **more})


_REPLY_FIELDS = {"text": str, "tool_calls": tuple, "usage": Usage}


def _ref(surface: Surface, digest: str) -> SurfaceRef:
    return SurfaceRef(digest=digest, model=surface.model, fallbacks=surface.fallbacks, skipped=surface.skipped)
