"""Which descendants of a thread wait for a person.

A run that waits for a child may wait for a person without knowing it: the child, or a child of that, has asked for one.
So a child that is paused for a person tells its parent in the commit that pauses it, and takes it back in the commit in
which it goes on or ends; a parent keeps it, by the thread that waits, and passes it on to its own parent. Telling is a
parcel: it arrives at least once, and taking it again changes nothing.

A child that is deleted takes nothing back. So what a child has told counts only as long as that child is at work, and
is taken back for it once it is not.
"""

from __future__ import annotations

from agency.children import outbox, rows
from agency.children.parcels import PersonWait
from agency.metadata import ThreadMetadata
from agency.store.draft import Draft
from agency.store.store import ThreadStore

OWNER = "person_waits"
_ALL = "SELECT key, value FROM kv WHERE owner = ?"


class PersonWaits:
    def __init__(self, store: ThreadStore, thread: ThreadMetadata) -> None:
        self._store = store
        self._thread = thread
        kept = store.query(_ALL, (OWNER,))
        self._waiting = {str(key): PersonWait.model_validate_json(str(value)) for key, value in kept}

    @property
    def concern_others(self) -> bool:
        """Whether there is a parent to tell, or anything that was told here. Most threads have neither, and this is
        asked at every step."""
        return bool(self._waiting) or self._thread.parent is not None

    @property
    def first(self) -> PersonWait | None:
        """A descendant that waits, if one does."""
        told = [wait for wait in self._waiting.values() if wait.thread_id != self._thread.id]
        at_work = _at_work(self._store) if told else ()
        return next((wait for wait in told if wait.via in at_work), None)

    def pause(self, draft: Draft, reason: str, call_id: str | None) -> None:
        """This thread waits for a person."""
        parent, own = self._thread.parent, self._thread.id
        if parent is not None:
            wait = PersonWait(to=parent.thread_id, via=own, thread_id=own, reason=reason, call_id=call_id)
            if self._waiting.get(own) != wait:
                self._keep(draft, wait)
                outbox.send(draft, wait)

    def go_on(self, draft: Draft) -> None:
        """This thread no longer waits for a person."""
        if (known := self._waiting.get(self._thread.id)) is not None:
            self._keep(draft, _over(known))
            outbox.send(draft, _over(known))

    def take(self, draft: Draft, told: PersonWait) -> None:
        """A child tells of itself or of a descendant: keep it, and pass it on."""
        self._keep(draft, told)
        self._pass_on(draft, told)

    def forget_ended(self, draft: Draft) -> None:
        """Take back what children have told that are no longer at work."""
        told = [wait for wait in self._waiting.values() if wait.thread_id != self._thread.id]
        at_work = _at_work(draft) if told else ()
        for wait in told:
            if wait.via not in at_work:
                self.take(draft, _over(wait))

    def _pass_on(self, draft: Draft, told: PersonWait) -> None:
        if self._thread.parent is not None:
            addressed = {"to": self._thread.parent.thread_id, "via": self._thread.id}
            outbox.send(draft, told.model_copy(update=addressed))

    def _keep(self, draft: Draft, wait: PersonWait) -> None:
        if wait.reason is None:
            self._waiting.pop(wait.thread_id, None)
            draft.put(OWNER, wait.thread_id, None)
        else:
            self._waiting[wait.thread_id] = wait
            draft.put(OWNER, wait.thread_id, wait.model_dump(mode="json"))


def _over(wait: PersonWait) -> PersonWait:
    return wait.model_copy(update={"reason": None, "call_id": None})


def _at_work(store: ThreadStore | Draft) -> frozenset[str]:
    return frozenset(child.thread for child in rows.children(store, status="waiting"))
