"""The two effects that concern the model: settling the surface of a call, and making the call.

Hooks and the model take time, so both work on drafts of their own and advance the run only if it still waits for them.
A reply is paid for: it is kept whatever the middleware make of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agency.children.family import Family
from agency.clock import now_ms
from agency.codes import USED_UP
from agency.define.hooks import Plan
from agency.errors import HookFailed, ModelError
from agency.messages import Usage
from agency.metadata import ThreadMetadata
from agency.runtime import Runtime
from agency.secrets import without_secrets
from agency.store import records
from agency.store.details import keep_detail
from agency.store.draft import Draft
from agency.store.store import ThreadStore
from agency.thread.current_run import Advance, CurrentRun
from agency.thread.doing import Doing
from agency.thread.feed import Feed
from agency.thread.model_calls import ModelCaller
from agency.thread.pipeline import Pipeline, Review
from agency.thread.run_endings import RunEndings, aborted_by
from agency.tracebacks import stack_of
from agency.turn import effects as fx
from agency.turn.state import NO_CEILING, WaitingModel
from agency.wire import sayable_text


class ModelEffects:
    def __init__(
        self,
        store: ThreadStore,
        run: CurrentRun,
        thread: ThreadMetadata,
        pipeline: Pipeline,
        caller: ModelCaller,
        feed: Feed,
        family: Family,
        endings: RunEndings,
        runtime: Runtime,
        advance: Advance,
        commit: Callable[[Draft], None],
    ) -> None:
        self._store = store
        self._run = run
        self._thread = thread
        self._pipeline = pipeline
        self._caller = caller
        self._feed = feed
        self._family = family
        self._endings = endings
        self._runtime = runtime
        self._advance = advance
        self._commit = commit
        self.compacting = False
        """Whether middleware are making room for a conversation that is too long."""

    # The surface: prompt, tools, parameters and models of the next call.

    def surface_at_once(self, draft: Draft, request: fx.SyncSurface) -> fx.Input | None:
        """The answer, if neither middleware nor a budget has a say in it; None if `sync_surface` has to find it."""
        if self._pipeline.shapes_calls or self._runtime.budgeted():
            return None
        return self._surface_of(draft, request, self._plan())

    async def sync_surface(self, request: fx.SyncSurface) -> None:
        run, draft = self._run, self._run.draft()
        code = await self.used_up_budget()
        if code is None:
            await self._open()
        plan = self._plan()
        if code is None:
            code = await self._shape(draft, plan)
        if run.awaits(draft.run, request.id):
            if code is not None:
                used_up = fx.BudgetSpent(id=request.id, at=now_ms(), code=code)
                self._advance(run.draft(), [used_up])
            else:
                self._advance(draft, [self._surface_of(draft, request, plan)])

    async def _open(self) -> None:
        """Try once more to open what middleware need. What they write counts, whatever comes of the call."""
        draft = self._run.draft()
        await self._pipeline.open(draft)
        if draft:
            self._commit(draft)

    def _plan(self) -> Plan:
        return self._caller.plan(self._pipeline.run_tools())

    async def _shape(self, draft: Draft, plan: Plan) -> str | None:
        """Let the hooks shape the call; the code of what was used up when one of them asked a model aside."""
        run = self._run
        try:
            if self._pipeline.sees_runs_start and not records.is_start_told(self._store, run.n):
                await self._pipeline.on_run_start(draft, run.id)
                records.keep_start(draft, run.n)
            await self._pipeline.plan(draft, run.id, plan)
        except HookFailed as error:
            if isinstance(why := error.__cause__, ModelError) and why.model_code in USED_UP:
                return why.model_code
            raise
        return None

    async def used_up_budget(self) -> str | None:
        """The code of the agency's budget that is used up, if it has one and it is."""
        if not self._runtime.budgeted():
            return None
        return await self._runtime.allowance(self._thread, self._endings.spent())

    def _surface_of(self, draft: Draft, request: fx.SyncSurface, plan: Plan) -> fx.Input:
        try:
            surface = self._caller.fix_surface(draft, plan)
        except ModelError as error:
            return aborted_by(error)
        children = self._family.spent_in(self._run.n)
        compacted = plan.forgotten > 0
        ceiling = None if (most := self._runtime.ceiling()) == NO_CEILING else most
        return fx.SurfaceSynced(
            id=request.id, at=now_ms(), surface=surface, children=children, compacted=compacted, ceiling=ceiling
        )

    # The call.

    async def call_model(self, request: fx.CallModel) -> None:
        await asyncio.sleep(0)  # a model that never waits must not keep others from running, or from canceling it
        draft, stream = self._run.draft(), self._feed.begin_text(self._run.n)
        answers: list[fx.Input] = []
        try:
            with Doing(self._thread, self._run.id, "model", f"the provider of {request.request.model}", draft):
                reply = await self._caller.reply(
                    request, self._run.n, self._run.seconds_left(), lambda delta: self._feed.add_text(stream, delta)
                )
            answers = await self._review(draft, request, reply)
        except ModelError as error:
            answers = await self._failed(draft, request, error)
            if (why := error.__cause__) is not None and error.model_code == "ERR_MODEL":
                keep_detail(draft, "model", "", {"traceback": stack_of(why)})
        finally:
            self._feed.end_text(stream)
        if self._run.awaits(draft.run, request.id):
            self._advance(draft, answers)

    def used(self) -> fx.Used:
        """What the model call has used that is being stopped, if one is."""
        state = self._run.state
        usage = self._caller.meter.usage if isinstance(state, WaitingModel) else None
        if usage is None or not isinstance(state, WaitingModel):
            return fx.Used()
        return fx.Used(usage=usage, cost_usd=self._caller.cost(state.request.model, usage))

    async def _failed(self, draft: Draft, request: fx.CallModel, error: ModelError) -> list[fx.Input]:
        """What the machine is told of a failure. If the request was too large, the middleware may make room."""
        room_made = False
        if error.model_code == "ERR_CONTEXT_OVERFLOW":
            plan, mark = self._plan(), draft.mark()
            self.compacting = True
            try:
                room_made = await self._pipeline.on_overflow(draft, self._run.id, plan)
            except HookFailed as failed:
                draft.undo(mark)
                return [aborted_by(failed)]
            finally:
                self.compacting = False
        failure = fx.ModelFailure(
            code=error.model_code,
            message=without_secrets(sayable_text(str(error))),
            retryable=error.retryable,
            retry_after_ms=error.retry_after_ms,
            request_id=error.request_id,
            status=error.status,
            room_made=room_made,
            usage=error.usage or Usage(),
            cost_usd=0.0 if error.usage is None else self._caller.cost(request.request.model, error.usage),
        )
        return [fx.ModelFailed(id=request.id, at=now_ms(), failure=failure)]

    async def _review(self, draft: Draft, request: fx.CallModel, reply: fx.ModelReply) -> list[fx.Input]:
        """Show a reply to the middleware. It is kept even if one of them fails on it."""
        review, mark = Review(), draft.mark()
        failed: list[fx.Input] = []
        try:
            await self._pipeline.on_model_result(draft, self._run.id, reply, review)
        except HookFailed as error:
            draft.undo(mark)
            failed = [aborted_by(error)]
        output, refused = self._caller.judge(reply, self._run.machine.said)
        refused = {**review.refused, **refused}
        replied = fx.ModelReplied(
            id=request.id,
            at=now_ms(),
            reply=reply,
            ask={call_id: ask for call_id, ask in review.ask.items() if call_id not in refused},
            seen_by=tuple(review.seen_by),
            cost_usd=self._caller.cost(request.request.model, reply.usage),
            output=output,
            refused=refused,
            hidden=self._hidden(reply),
            first_token_ms=self._caller.meter.first_token_ms,
        )
        return [replied, *failed]

    def _hidden(self, reply: fx.ModelReply) -> dict[str, tuple[str, ...]]:
        """The arguments of its calls that people are not shown."""
        tools = ((call.id, self._pipeline.tools.get(call.name)) for call in reply.tool_calls)
        return {call_id: tool.hidden for call_id, tool in tools if tool is not None and tool.hidden}
