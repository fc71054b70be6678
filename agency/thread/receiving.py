"""Taking what other threads of the family send: a parent's cancel, the report of a child, a note of another agent.

Parcels are delivered at least once, so each is taken in a way that doing it again changes nothing: a report counts
while its child is waited for, a note is remembered by its key, and only the run that a parent started can be canceled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agency.children import rows
from agency.children.parcels import Cancel, LateSpending, Note, PersonWait, Report
from agency.define.hooks import ChildReport
from agency.errors import AgencyError, HookFailed
from agency.events import OURS
from agency.messages import Message
from agency.metadata import ThreadMetadata
from agency.store import records
from agency.store.draft import Draft
from agency.store.store import ThreadStore
from agency.thread.driver import Driver
from agency.thread.files import keep_files, keeps_files
from agency.thread.inbox import AGENT_ORIGIN
from agency.thread.pipeline import Pipeline
from agency.turn.effects import CanceledBy


class ParcelReceiver:
    def __init__(
        self,
        store: ThreadStore,
        thread: ThreadMetadata,
        pipeline: Pipeline,
        driver: Driver,
        spent_more: Callable[[], None],
    ) -> None:
        """`spent_more` is called when a child has reported what it used, and nothing else has come of it."""
        self._store = store
        self._thread = thread
        self._pipeline = pipeline
        self._driver = driver
        self._run = driver.run
        self._spent_more = spent_more

    async def receive(self, parcel: Report | Cancel | Note | PersonWait | LateSpending) -> None:
        match parcel:
            case Cancel():
                if self._run.active and self._run.n == 1:  # the run that the parent started, and no later one
                    parent = self._thread.parent
                    by = CanceledBy(kind=parcel.why, name=None if parent is None else parent.thread_id)
                    await self._driver.stopping.cancel(by, drops_queue=True)
            case Report():
                await self._take_report(parcel)
            case Note():
                self._take_note(parcel)
            case PersonWait():
                draft = self._run.draft()
                self._driver.person_waits.take(draft, parcel)
                self._driver.commit(draft)
            case LateSpending():
                self._take_spending(parcel)

    def _take_spending(self, told: LateSpending) -> None:
        """A child has cost more than it reported, and so has this thread, for its own parent."""
        draft = self._run.draft()
        for child in rows.children(self._store, token=told.token):
            self._driver.family.report_spent(draft, child, told.spent)
        if draft:
            self._driver.report_late(draft)
            self._driver.commit(draft)
            self._spent_more()

    def _take_note(self, note: Note) -> None:
        key = f"{OURS}note:{note.key}"
        if note.family != self._thread.family or records.request(self._store, key) is not None:
            return
        draft = self._run.draft()
        records.remember_request(draft, key, self._run.status)
        said = f"Message from {note.agent_type} ({note.sender}):\n\n{note.text}"
        draft.post(Message(role="user", content=said, origin=AGENT_ORIGIN))
        self._driver.take(draft)

    async def _take_report(self, report: Report) -> None:
        """Hooks take time, and the child may be given up meanwhile. So what was staged counts only if the child is
        waited for still; what it has used counts in any case."""
        draft, failed = await self._tell_hooks(report)
        said = report.report
        if report.files and keeps_files(self._pipeline) and self._waits_for(report.token):
            said += await self._keep_files(draft, report.files)
        known = rows.children(self._store, token=report.token)
        waiting = [child for child in known if child.status == "waiting"]
        if not waiting:
            draft = self._run.draft()
        if known and report.spent is not None:
            self._driver.family.report_spent(draft, known[0], report.spent)
        if waiting:
            self._driver.family.ended(draft, waiting[0], report.status, said)
            if failed is not None and self._run.active and self._run.n == waiting[0].run:
                await self._driver.stopping.abort(failed)
        elif draft:
            self._driver.report_late(draft)
            self._driver.commit(draft)
            self._spent_more()

    async def _tell_hooks(self, report: Report) -> tuple[Draft, HookFailed | None]:
        """What the middleware make of a report. If one of them fails, the report stands all the same."""
        draft = self._run.draft()
        told = ChildReport(thread_id=report.thread_id, token=report.token, status=report.status, report=report.report)
        if self._waits_for(report.token):
            try:
                await self._pipeline.on_child_report(draft, self._run.id, told)
            except HookFailed as error:
                return self._run.draft(), error
        return draft, None

    def _waits_for(self, token: str) -> bool:
        return bool(rows.children(self._store, token=token, status="waiting"))

    async def _keep_files(self, draft: Draft, files: Mapping[str, str]) -> str:
        """Take the files that a child hands back; what the model is told about them."""
        mark = draft.mark()
        try:
            await keep_files(self._pipeline, draft, files)
        except AgencyError as error:  # the report stands all the same
            draft.undo(mark)
            draft.warn("files_not_kept", f"the files that a child handed back could not be kept: {error}")
            return f"\n\n(The files that it handed back could not be kept: {error})"
        return f"\n\n(Files handed back: {', '.join(files)})"
