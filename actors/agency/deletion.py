"""Deleting threads. They are marked first and removed then, so an agency that dies in between finishes it later.

A thread goes with all its descendants. A run in progress is canceled first, so that its end is told. The file is
removed before the host is told to close the thread, because as long as there is a file, a caller can wake the thread
again; and once more after, because the host may have written meanwhile.
"""

from __future__ import annotations

import asyncio
import logging

from actors.agency.accounts import Accounts
from actors.agency.context import AgencyContext
from actors.agency.overview import Overview
from actors.agency.scheduling import Scheduler
from actors.operations import operation
from agency.children.parcels import Report
from agency.errors import AgencyError, NotFound
from agency.local import HOPELESS
from agency.metadata import ParentInfo, ThreadMetadata
from agency.store.peek import glance

log = logging.getLogger(__name__)


class ThreadDeletion:
    def __init__(self, context: AgencyContext, accounts: Accounts, scheduler: Scheduler, overview: Overview) -> None:
        self._context = context
        self._store = context.store
        self._accounts = accounts
        self._scheduler = scheduler
        self._overview = overview
        self._deleting = asyncio.Lock()

    @operation
    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with all its descendants. A parent that waits for it is told that it was canceled."""
        if not self._store.is_being_deleted(thread_id):
            if self._store.thread(thread_id) is None:
                raise NotFound(f"agency {self._context.id!r} has no thread {thread_id!r}")
            self._store.mark_deleting(thread_id)
            self._scheduler.threads_ended()
        await self.delete_marked()

    async def delete_marked(self) -> None:
        """Finish every deletion that has begun. What cannot be finished yet is tried again with the next one. Of calls
        that come together, one does the work of all, and the others then find nothing left to do."""
        async with self._deleting:
            await self._delete_marked()

    async def _delete_marked(self) -> None:
        marked = self._store.deleting()
        ids = {metadata.id for metadata in marked}
        for metadata in marked:
            await self._remove(metadata.id)
            # A parent that is deleted as well needs no report.
            outside = metadata.parent is not None and metadata.parent.thread_id not in ids
            if not outside or await self._tell_parent(metadata):
                self._store.forget_thread(metadata.id)

    async def _remove(self, thread_id: str) -> None:
        """Remove a thread's file, and add what it has used to the agency's accounts."""
        address, files = self._context.address(thread_id), self._context.files
        await self._context.installation.end_run(address)
        if not self._context.deleting:
            await self._overview.settle(thread_id)
        used = glance(files.of(address)).spent
        files.remove(address)
        latest = await self._context.installation.evict(address)
        self._accounts.settle(thread_id, used if latest is None else latest.spent)
        files.remove(address)

    async def _tell_parent(self, child: ThreadMetadata) -> bool:
        """Whether the parent knows that its child is gone, or cannot be told at all."""
        assert child.parent is not None
        try:
            await self._context.installation.report(self._context.id, _deleted(child.id, child.parent))
        except HOPELESS as error:
            log.warning("the parent of %s cannot be told that it is gone: %s", child.id, error)
        except AgencyError as error:
            log.warning("the parent of %s cannot be told yet that it is gone: %s", child.id, error)
            return False
        return True


def _deleted(thread_id: str, parent: ParentInfo) -> Report:
    gone = "the thread was deleted"
    return Report(to=parent.thread_id, thread_id=thread_id, token=parent.token, status="canceled", report=gone)
