"""Editing what an agent keeps, as a person: each part of the state goes to the middleware that owns it.

Nothing may race: a run that is at work reads and writes the same rows. So it is refused while one is, before and after
the middleware has been asked, and all that was staged is one commit, with an event for each part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pydantic import JsonValue

from agency import events
from agency.define.hooks import HookContext
from agency.define.state import AnyStateEditor, StateEditor
from agency.errors import HookFailed, InvalidInput, WrongState
from agency.metadata import ThreadMetadata
from agency.store.draft import Draft
from agency.store.store import ThreadStore
from agency.thread.driver import Driver
from agency.thread.pipeline import Pipeline, run_hook


class StateEditing:
    def __init__(self, store: ThreadStore, thread: ThreadMetadata, pipeline: Pipeline, driver: Driver) -> None:
        self._store = store
        self._thread = thread
        self._pipeline = pipeline
        self._driver = driver

    async def edit(self, changes: Mapping[str, JsonValue], by: str | None, seq: int | None) -> None:
        """Make these changes, by part, or none of them."""
        self._check(seq)
        owners = {part: self._owner(part) for part in changes}
        if not owners:
            raise InvalidInput(f"name what to change: {self._editable()}")
        draft = self._store.draft()
        for part, (editor, context_of) in owners.items():
            context = context_of(draft)
            try:
                paths = await run_hook("edit_state", editor.edit_state, context, part, changes[part])
            except HookFailed as error:
                if isinstance(error.__cause__, InvalidInput):
                    raise error.__cause__ from None
                raise
            draft.emit(events.state_edited(part, "edited", paths, by))
        self._check(seq)
        if not self._driver.run.active:
            self._say_now(draft)
        self._driver.commit(draft)

    def _say_now(self, draft: Draft) -> None:
        """What the model is told of it joins the conversation at once: no run has a checkpoint for that to wait for."""
        n, seq = self._driver.run.n, self._store.last_seq
        ids = (f"m{n}.edit{seq}_{i}" for i in range(1, len(draft.posted) + 1))
        draft.messages += [
            post.message.model_copy(update={"id": each}) for post, each in zip(draft.posted, ids, strict=True)
        ]
        draft.posted = []

    def _check(self, seq: int | None) -> None:
        self._driver.check_alive()
        run = self._driver.run
        if run.active and run.pause_reason is None:
            raise WrongState(f"the run of thread {self._thread.id} is at work: pause it or wait for its end, then edit")
        if seq is not None and seq != self._store.last_seq:
            raise WrongState(f"thread {self._thread.id} has changed since event {seq}: look at its state again")

    def _owner(self, part: str) -> tuple[AnyStateEditor, Callable[[Draft], HookContext[Any, Any]]]:
        """The middleware that owns a part, and what its methods are given."""
        for mw in self._pipeline.middleware:
            if isinstance(mw, StateEditor) and part in mw.editable:
                return mw, partial(self._pipeline.context, mw)
        raise InvalidInput(
            f"{part!r:.100} cannot be edited; of agent {self._pipeline.agent!r} you can: {self._editable()}"
        )

    def _editable(self) -> str:
        known = [part for mw in self._pipeline.middleware if isinstance(mw, StateEditor) for part in mw.editable]
        return ", ".join(known) or "nothing"
