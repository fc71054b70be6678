"""Taking what callers hand in: messages, which start a run or join it, and files.

Files are kept by middleware, and that takes time. So they are staged first, and then, without awaiting, the thread is
looked at as it is by then: whether the request is known already, and whether there is a run to join.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from agency import events
from agency.define.options import NO_OPTIONS
from agency.errors import NotFound
from agency.idempotency import check_repeated
from agency.metadata import ThreadMetadata
from agency.store import records
from agency.store.draft import Draft
from agency.store.store import ThreadStore, run_id
from agency.thread.driver import Driver
from agency.thread.files import delete_file, keep_files
from agency.thread.invocation import Invocation
from agency.thread.pipeline import Pipeline
from agency.thread.views import Accepted, AcceptedStatus


class Acceptor:
    def __init__(self, store: ThreadStore, thread: ThreadMetadata, pipeline: Pipeline, driver: Driver) -> None:
        self._store = store
        self._thread = thread
        self._pipeline = pipeline
        self._driver = driver
        self._run = driver.run

    async def accept(self, invocation: Invocation) -> Accepted:
        staged = await self._staged(invocation.files) if invocation.files else self._store.draft()
        if (known := self._known(invocation)) is not None:
            return known
        if invocation.options != NO_OPTIONS:
            self._driver.check_options(invocation.options, handed_down=invocation.handed_down)
        if self._run.active:
            return await self._join(invocation, staged)
        return self._begin(invocation, staged)

    def _known(self, invocation: Invocation) -> Accepted | None:
        """What the request with this key was told; `KeyReused` if that was another request."""
        key = invocation.idempotency_key
        request = None if key is None else records.request(self._store, key)
        if request is None:
            return None
        check_repeated(request.digest, invocation.digest)
        return Accepted.model_validate({"run_id": run_id(self._thread.id, request.run), "status": request.status})

    def _begin(self, invocation: Invocation, staged: Draft) -> Accepted:
        draft, accepted = self._accepted(invocation, staged, self._run.n + 1, "running")
        self._driver.begin(draft, invocation.messages, invocation.terms)
        return accepted

    async def _join(self, invocation: Invocation, staged: Draft) -> Accepted:
        """Post the messages for the run in progress, or for the one after it, which they start under their terms."""
        when = invocation.when
        waits = when == "next_run"
        status: AcceptedStatus = "queued" if waits else self._run.status
        draft, accepted = self._accepted(invocation, staged, self._run.n, status, self._run.n + waits)
        terms = invocation.terms.model_dump_json() if waits else None
        for message in invocation.messages:
            draft.post(message, when, terms)
        self._driver.commit(draft)
        if when == "now" and self._run.interruptible:
            await self._driver.stopping.interrupt()
        return accepted

    def _accepted(
        self, invocation: Invocation, staged: Draft, n: int, status: AcceptedStatus, run: int | None = None
    ) -> tuple[Draft, Accepted]:
        """A draft of run `n` that says so, and the answer. `run` is the run that the messages go to, if another."""
        run = n if run is None else run
        key = invocation.idempotency_key or secrets.token_hex(12)
        draft = self._store.draft(n)
        draft.statements += staged.statements
        draft.emit(events.request_accepted(key))
        if invocation.files:
            draft.emit(events.state_edited("files", "uploaded", sorted(invocation.files)))
        records.remember_request(draft, key, status, invocation.digest, run)
        return draft, Accepted(run_id=run_id(self._thread.id, run), status=status)

    async def put_files(self, files: Mapping[str, str | bytes], by: str | None) -> None:
        draft = await self._staged(files)
        draft.emit(events.state_edited("files", "uploaded", sorted(files), by))
        self._driver.commit(draft)

    async def delete_file(self, path: str, by: str | None) -> None:
        draft = self._store.draft()
        there = await delete_file(self._pipeline, draft, path)
        self._driver.check_alive()
        if not there:
            raise NotFound(f"thread {self._thread.id} has no file {path!r:.200}")
        draft.emit(events.state_edited("files", "deleted", [path], by))
        self._driver.commit(draft)

    async def _staged(self, files: Mapping[str, str | bytes]) -> Draft:
        """A draft with these files, for the caller to commit."""
        draft = self._store.draft()
        await keep_files(self._pipeline, draft, files)
        self._driver.check_alive()
        return draft
