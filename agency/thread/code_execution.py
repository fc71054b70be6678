"""Executing code that a model wrote, for agents in code mode, and the tool calls that the code makes.

Each call is recorded like any other. When the same code runs again after a crash, calls that had ended are answered
from their record, as long as the code makes the same calls in the same order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

from pydantic import JsonValue, TypeAdapter
from pydantic_core import to_json

from agency.clock import now_ms
from agency.define.code import CodeResult, CodeRunner
from agency.errors import HookFailed, StoreError
from agency.messages import ToolCall
from agency.store import records
from agency.store.store import ThreadStore
from agency.thread.workers import is_ours
from agency.turn.effects import CodeCall, CodeRan, ExecCode, PendingCall
from agency.turn.outcomes import Settled
from agency.wire import sayable, sayable_text

RunCall = Callable[[int, int, PendingCall, bool], Awaitable[Settled]]
"""Run, effect, call, and whether it had begun before a crash."""


_RESULT = TypeAdapter(CodeResult)


class Execution:
    """One block of code, being run."""

    def __init__(self, request: ExecCode, run: int, store: ThreadStore, run_call: RunCall) -> None:
        self._request = request
        self._run = run
        self._run_call = run_call
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
            result = CodeResult(output=f"{type(error).__name__}: {error}", state=request.state)
        if self._failed is not None:  # the code may have swallowed it
            raise self._failed
        return CodeRan(
            id=request.id,
            at=now_ms(),
            output=sayable_text(result.output),
            calls=tuple(self._made),
            state=sayable(result.state),
            submitted=None if result.submitted is None else (sayable(result.submitted[0]),),
            error=None if result.error is None else sayable_text(result.error),
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
        self._made.append(CodeCall(id=call.id, name=name, outcome=outcome))
        return outcome
