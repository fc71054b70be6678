"""Trying a failed run again, from where it failed.

The run that failed stays as it is: its events, its code, what it has used. The retry is a run of its own, with the same
terms, that begins with the conversation as the other one left it. So the results of calls are kept, and the model call
or the step that failed is done again. Calls that had not ended have a result that says so, and the model decides.

A parent that was told of the failure is not told of the retry: what a child does in later runs is not what its parent
asked for.
"""

from __future__ import annotations

from pydantic_core import from_json

from agency import events
from agency.define.options import NO_OPTIONS, RunOptions
from agency.errors import WrongState
from agency.events import OURS
from agency.idempotency import check_repeated, request_digest
from agency.metadata import ThreadMetadata
from agency.store import records
from agency.store.records import StoredRun
from agency.store.store import ThreadStore, run_id
from agency.thread.driver import Driver
from agency.thread.inbox import RunTerms
from agency.thread.views import Accepted
from agency.turn.machine import TurnMachine
from agency.turn.outcomes import Stopped
from agency.turn.replies import said_again
from agency.turn.state import Limits


class Retrying:
    def __init__(self, store: ThreadStore, thread: ThreadMetadata, driver: Driver) -> None:
        self._store = store
        self._thread = thread
        self._driver = driver

    def retry(self, limits: Limits | None, key: str) -> Accepted:
        """Begin the run that tries the latest one again. With a key that is known, the answer is the first one's."""
        digest, named = request_digest(retry=True, limits=limits), f"{OURS}retry:{key}"
        if (known := records.request(self._store, named)) is not None:
            check_repeated(known.digest, digest)
            return Accepted(run_id=run_id(self._thread.id, known.run), status="running")
        failed, outcome, used = self._failed()
        again = failed.n + 1
        draft = self._store.draft(again)
        draft.emit(events.request_accepted(named, retry_of=run_id(self._thread.id, failed.n)))
        records.remember_request(draft, named, "running", digest)
        records.keep_retry(draft, again, failed.n)
        count = self._store.message_count
        last = self._store.messages(count - 1)[-1] if count else None
        self._driver.begin(draft, said_again(outcome, last), _terms(failed, limits or used))
        return Accepted(run_id=run_id(self._thread.id, again), status="running")

    def _failed(self) -> tuple[StoredRun, Stopped, Limits]:
        """The latest run, how it has failed, and what it was limited by."""
        run = records.last_run(self._store)
        if run is None:
            raise WrongState(f"thread {self._thread.id} has not run yet: send it a message")
        machine = TurnMachine(run.checkpoint)
        outcome = machine.outcome
        if run.status == "error" and isinstance(outcome, Stopped):
            return run, outcome, machine.checkpoint().limits
        if machine.outcome is None and machine.pause_reason == "exhausted":
            raise WrongState(f"run {run_id(self._thread.id, run.n)} has used up a limit: lift it, and the run goes on")
        told = "is in progress" if outcome is None else "was canceled" if run.status == "canceled" else "has not failed"
        raise WrongState(f"run {run_id(self._thread.id, run.n)} {told}: only a run that has failed can be retried")


def _terms(failed: StoredRun, limits: Limits) -> RunTerms:
    return RunTerms(
        limits=limits,
        output=None if failed.output is None else from_json(failed.output),
        options=NO_OPTIONS if failed.options is None else RunOptions.model_validate_json(failed.options),
    )
