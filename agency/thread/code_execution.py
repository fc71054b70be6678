"""Executing code that a model wrote, for agents in code mode, and the tool calls that the code makes.

Each call is recorded like any other. When the same code runs again after a crash, calls that had ended are answered
from their record, as long as the code makes the same calls in the same order.

Code may run on in a thread of its own after its run has ended. So before every step of a call it is checked that the
run still waits for this code; if not, the call does nothing any more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace

from pydantic import JsonValue, TypeAdapter
from pydantic_core import to_json

from agency import events
from agency.clock import now_ms
from agency.define.code import CodeResult, CodeRunner
from agency.define.tools import Tool
from agency.errors import DefinitionError, HookFailed, StoreError, WrongState
from agency.events import RecoveryWhy
from agency.messages import ToolCall
from agency.redaction import shown
from agency.secrets import free_of_secrets, without_secrets
from agency.store import records
from agency.store.draft import Draft
from agency.store.store import ThreadStore, run_id
from agency.store.tokens import close_tokens_of
from agency.thread.batches import begin, emit_end
from agency.thread.calls import IN_DOUBT, CallRunner, is_doubtful
from agency.thread.current_run import Advance, CurrentRun
from agency.thread.effect_loop import EffectLoop
from agency.thread.pipeline import Pipeline, Review
from agency.thread.run_endings import aborted_by
from agency.thread.workers import TimedOut, is_ours, what_failed, within
from agency.turn.effects import CodeCall, CodeRan, ExecCode, ModelReply, PendingCall
from agency.turn.outcomes import CallOutcome, Failure, Settled, Success
from agency.wire import sayable, sayable_text

NOT_FROM_CODE = "this call needs a person's approval: call the tool yourself, not from code"
_RESULT = TypeAdapter(CodeResult)

RunCall = Callable[[int, int, PendingCall, bool], Awaitable[Settled]]
"""Run, effect, call, and whether it had begun before a crash."""


class CodeExecutor:
    """Performs the effect `ExecCode`."""

    def __init__(
        self,
        store: ThreadStore,
        run: CurrentRun,
        loop: EffectLoop,
        pipeline: Pipeline,
        calls: CallRunner,
        code_runner: CodeRunner | None,
        commit: Callable[[Draft], None],
        advance: Advance,
    ) -> None:
        self._store = store
        self._run = run
        self._loop = loop
        self._pipeline = pipeline
        self._calls = calls
        self._code_runner = code_runner
        self._commit = commit
        self._advance = advance
        self.recovered: RecoveryWhy | None = None
        """Why the run was taken up here in the middle, if it was."""

    async def perform(self, request: ExecCode) -> None:
        run, runner = self._run.n, self._code_runner
        if runner is None:
            error = DefinitionError("this agent works in code mode and the system has no code_runner")
            self._advance(self._store.draft(run), [aborted_by(error)])
            return
        execution = CodeExecution(request, run, self._store, self._run_call, self._hidden)
        seconds_left, work = self._run.seconds_left(), execution.perform(runner)
        try:
            ran = await (work if seconds_left is None else within(seconds_left, work))
        except TimedOut:
            ran = execution.stopped("the run's time is used up")
        if self._run.awaits(run, request.id):
            draft = self._store.draft(run)
            records.forget_calls(draft, request.id)
            self._advance(draft, [ran])

    async def _run_call(self, run: int, effect: int, call: PendingCall, had_begun: bool) -> Settled:
        """Run a call that the code makes."""
        self._check_awaited(run, effect)
        draft, review = self._store.draft(run), Review()
        tool = self._pipeline.tools.get(call.call.name)
        call = replace(call, hidden=self._hidden(call.call.name))
        await self._pipeline.on_model_result(draft, self._run.id, ModelReply(tool_calls=(call.call,)), review)
        self._check_awaited(run, effect)
        if not had_begun:
            begin(draft, effect, [call], self._pipeline.type_of)
            self._commit(draft)
            draft = self._store.draft(run)
        failed_hook: HookFailed | None = None
        outcome: CallOutcome | None = _without_running(call, tool, review, had_begun)
        if outcome is None:
            if had_begun:
                self._tell_again(run, call)
            outcome, draft, failed_hook = await self._calls.run(call, run, effect, self._run.seconds_left())
            self._check_awaited(run, effect)
        if outcome.status == "deferred":
            draft = self._store.draft(run)
            close_tokens_of(draft, run, effect, call.id)
            outcome = Failure(kind="invalid_request", source="runtime", message="code cannot wait for this tool")
        emit_end(draft, call, outcome)
        records.end_call(draft, effect, call.id, outcome)
        self._commit(draft)
        if failed_hook is not None:
            raise failed_hook
        return outcome

    def _tell_again(self, run: int, call: PendingCall) -> None:
        """A call that had begun before a crash runs once more, for the code does so."""
        draft = self._store.draft(run)
        attempt = records.times_retried(self._store, run, call.id) + 2
        draft.emit(events.tool_retried(call.call.name, call.id, attempt, self.recovered or "died"))
        self._commit(draft)

    def _hidden(self, name: str) -> tuple[str, ...]:
        """The arguments of a tool that people are not shown."""
        tool = self._pipeline.tools.get(name)
        return () if tool is None else tool.hidden

    def _check_awaited(self, run: int, effect: int) -> None:
        if self._loop.stopped or not self._run.awaits(run, effect):
            raise WrongState(f"run {run_id(self._store.thread_id, run)} no longer waits for this code")


def _without_running(call: PendingCall, tool: Tool | None, review: Review, had_begun: bool) -> Settled | None:
    """The result of a call that must not run: it was refused, needs a person, or is in doubt after a crash."""
    if call.id in review.refused:
        return review.refused[call.id]
    if review.ask:
        return Failure(kind="permission_denied", source="policy", message=NOT_FROM_CODE)
    if had_begun and is_doubtful(tool):
        return Failure(kind="external", source="runtime", message=IN_DOUBT)
    return None


class CodeExecution:
    """One block of code, being run."""

    def __init__(
        self,
        request: ExecCode,
        run: int,
        store: ThreadStore,
        run_call: RunCall,
        hidden: Callable[[str], tuple[str, ...]],
    ) -> None:
        self._request = request
        self._run = run
        self._run_call = run_call
        self._hidden = hidden
        self._recorded = records.calls(store, run, request.id)
        self._count = 0
        self._failed: HookFailed | StoreError | None = None
        self._made: list[CodeCall] = []

    async def perform(self, runner: CodeRunner) -> CodeRan:
        """Run it. What the code does wrong is its output, for the model to read."""
        request = self._request
        try:
            result = _RESULT.validate_python(await runner.run(request.code, request.state, self._call))
            to_json([result.state, result.submitted])
        except BaseException as error:
            if is_ours(error):
                raise
            result = CodeResult(output=what_failed(error), state=request.state)
        if self._failed is not None:  # the code may have swallowed it
            raise self._failed
        return CodeRan(
            id=request.id,
            at=now_ms(),
            output=without_secrets(sayable_text(result.output)),
            calls=tuple(self._made),
            state=free_of_secrets(sayable(result.state)),
            submitted=None if result.submitted is None else (free_of_secrets(sayable(result.submitted[0])),),
            error=None if result.error is None else without_secrets(sayable_text(result.error)),
        )

    def stopped(self, why: str) -> CodeRan:
        """What is left to say when it had to be stopped."""
        request = self._request
        return CodeRan(id=request.id, at=now_ms(), output=why, calls=tuple(self._made), state=request.state)

    async def _call(self, name: str, args: JsonValue) -> Settled:
        self._count += 1
        digest = hashlib.blake2b(to_json([name, args]), digest_size=4).hexdigest()
        call = ToolCall(id=f"code{self._count}-{digest}", name=name, args=args)
        outcome = self._recorded.get(call.id)
        if outcome is None or isinstance(outcome, records.Began) or outcome.status == "deferred":
            pending = PendingCall(call=call, key=f"{self._run}.{self._request.id}.{call.id}")
            try:
                outcome = await self._run_call(self._run, self._request.id, pending, call.id in self._recorded)
            except (HookFailed, StoreError) as error:
                self._failed = self._failed or error
                raise
        told = replace(outcome, images=()) if isinstance(outcome, Success) else outcome  # the code has them
        seen = shown(call.args, self._hidden(name), longest=None)
        self._made.append(CodeCall(id=call.id, name=name, outcome=told, args=seen))
        return outcome
