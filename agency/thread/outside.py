"""Calls that wait for the outside: handing out tokens, and taking what settles them.

A token is on disk before the tool has it. What settles it may come while the tool still runs: then it is kept, and is
the call's result once the tool returns. Whatever comes first counts, a result, an error or the deadline; what comes
later is told so, and changes nothing. When the call or the run ends otherwise, its tokens settle nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pydantic import JsonValue, TypeAdapter

from agency.children.family import Settle
from agency.clock import now_ms
from agency.define.outside import IssuesNone, OutsideWait, address_of, checked_wait, digest_of, new_token
from agency.errors import InvalidInput, NotFound, WrongState
from agency.metadata import ThreadMetadata
from agency.secrets import without_secrets
from agency.store import tokens
from agency.store.draft import Draft
from agency.store.store import ThreadStore
from agency.store.timers import set_timer
from agency.store.tokens import TokenRow, TokenStatus
from agency.thread.batches import BatchRunner
from agency.thread.calls import success_of
from agency.thread.current_run import CurrentRun
from agency.turn.outcomes import Failure, Settled
from agency.validation import valid
from agency.wire import Wire, sayable_text

ERROR_CHARS = 10_000
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
_TEXT: TypeAdapter[str] = TypeAdapter(str)


class Settlement(Wire):
    """What came of settling a token: `settled`, or not, because its call had ended before: it was settled, its time was
    over, or its run had ended."""

    settled: bool
    status: TokenStatus
    call_id: str


def settled_by(result: JsonValue, error: str | None) -> Settled:
    """The outcome of a call that was settled from outside; `InvalidInput` if there are two of them."""
    if error is None:
        return success_of(valid(_JSON, result, "result"))
    if result is not None:
        raise InvalidInput("a call is settled with a result or with an error, not with both")
    message = without_secrets(sayable_text(valid(_TEXT, error, "error")))[:ERROR_CHARS]
    return Failure(kind="external", message=message or "it was settled as failed, without a reason")


class Outside:
    def __init__(
        self,
        store: ThreadStore,
        run: CurrentRun,
        thread: ThreadMetadata,
        batches: BatchRunner,
        settle: Settle,
        commit: Callable[[Draft], None],
    ) -> None:
        self._store = store
        self._run = run
        self._thread = thread
        self._batches = batches
        self._settle = settle
        self._commit = commit
        self._loop = asyncio.get_running_loop()

    def __reduce__(self) -> tuple[type[IssuesNone], tuple[()]]:
        """In another process, the thread cannot be reached."""
        return IssuesNone, ()

    async def issue(self, run: int, effect: int, call: str, about: str, timeout_ms: int) -> OutsideWait:
        """A token for a call that is running. Sync tools may ask for one from their threads."""
        checked_wait(about, timeout_ms)
        said = without_secrets(sayable_text(about))
        if asyncio.get_running_loop() is self._loop:
            return self._issue(run, effect, call, said, timeout_ms)

        async def there() -> OutsideWait:
            return self._issue(run, effect, call, said, timeout_ms)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(there(), self._loop))

    def _issue(self, run: int, effect: int, call: str, about: str, timeout_ms: int) -> OutsideWait:
        if not self._run.awaits(run, effect):
            raise WrongState("the run no longer waits for this call")
        token, now = new_token(self._thread.agency_id, self._thread.id), now_ms()
        row = TokenRow(digest_of(token), run, effect, call, about, now, now + timeout_ms)
        draft = self._store.draft(run)
        tokens.add_token(draft, row)
        set_timer(draft, row.timer, row.deadline)
        self._commit(draft)
        self._batches.with_tokens.add((run, effect, call))
        return OutsideWait(token, about, row.deadline)

    def settle(self, token: str, outcome: Settled) -> Settlement:
        """Give the token's call its result, unless it has one."""
        agency, thread = address_of(token)
        row = tokens.token(self._store, digest_of(token))
        if row is None or (agency, thread) != (self._thread.agency_id, self._thread.id):
            raise NotFound(f"no call of thread {self._thread.id} has this token")
        if row.status != "waiting":
            return Settlement(settled=False, status=row.status, call_id=row.call)
        self._close(self._store.draft(row.run), row, "settled", outcome)
        return Settlement(settled=True, status="settled", call_id=row.call)

    def timed_out(self, draft: Draft, digest: str) -> bool:
        """The time of a token is over; whether its call still waited. Commits the draft, if so."""
        row = tokens.token(self._store, digest)
        if row is None or row.status != "waiting":
            return False
        message = f"what it waited for ({row.about}) did not come within {(row.deadline - row.created_at) / 1000:g} s"
        self._close(draft, row, "timed_out", Failure(kind="timeout", source="runtime", message=message))
        return True

    def _close(self, draft: Draft, row: TokenRow, status: TokenStatus, outcome: Settled) -> None:
        run, effect, call = row.run, row.effect, row.call
        waits = self._batches.waits_outside(run, effect, call) or self._run.awaits_call(run, effect, call) is not None
        if not waits:  # the tool has not returned yet, or will run again
            tokens.close_token(draft, row, status, outcome)
            self._commit(draft)
            return
        tokens.close_token(draft, row, status)
        tokens.close_tokens_of(draft, run, effect, call)
        self._batches.with_tokens.discard((run, effect, call))
        self._settle(draft, run, effect, call, outcome)
