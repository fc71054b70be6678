"""The Agency: the control plane of one tenant. It knows its threads, its blueprints, where its models are and what it
may spend, when it starts threads by itself, and never calls a model.

What it begins, it finishes: that a thread is to be made or deleted is written down first, so an agency that dies in
the middle goes on with it when it is next awake.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from pydantic import JsonValue, ValidationError

from actors.address import Address, Files
from actors.agency.accounts import Accounts
from actors.agency.journal import Journal, JournalPage
from actors.agency.schedules import ENDED
from actors.agency.scheduling import Scheduler
from actors.agency.store import AgencyStore, Creation
from actors.build import FOR_AGENCIES
from actors.settings import Settings
from actors.updates import ThreadUpdate
from actors.validation import Seq, checked
from agency.api.tenancy import (
    AgencyInfo,
    AgencyUsage,
    BlueprintInfo,
    Budget,
    KeyInfo,
    KeyRole,
    ProviderInfo,
    ThreadSummary,
)
from agency.approvals.rules import Policy
from agency.children.parcels import Report, Spawn
from agency.clock import now_ms
from agency.define.blueprint import Blueprint
from agency.define.output import as_schema
from agency.define.system import AgentSystem
from agency.errors import AgencyError, InvalidInput, NotFound, WrongState
from agency.events import OURS, timestamp
from agency.json_schema import Schema
from agency.local import HOPELESS
from agency.messages import Message
from agency.metadata import ParentInfo, RequestContext, ThreadMetadata
from agency.models.providers.entry import Provider, ProviderName
from agency.schedules.schedule import Schedule, ScheduleInfo
from agency.spending import Spent
from agency.store.forking import find_origin
from agency.store.peek import glance
from agency.thread.invocation import checked_messages
from agency.turn.state import Limits, PauseReason, RunStatus
from agency.wire import Wire, explain, sayable, sayable_text

log = logging.getLogger(__name__)

PAGE_MOST = 1_000
JOURNAL_MOST = 10_000
WAIT_MOST = 30.0
LINGER_SECONDS = 15.0
"""How long after a wait for events the next one is expected."""
PROVIDERS_MOST = 100
TELLING_AT_ONCE = 16
AGAIN_SECONDS = 1.0

_FIELDS = {field.alias: name for name, field in Blueprint.model_fields.items()}
"""A blueprint's fields, by the names that they have outside."""

System = Callable[[], AgentSystem]
"""The agents, which are there once an agency is called; its news may come before."""


class Others(Protocol):
    """What an agency needs from the rest of the installation."""

    async def create(self, creation: Creation) -> None:
        """Make a thread, if it is not there yet, and begin its first run."""

    async def evict(self, address: Address) -> ThreadUpdate | None:
        """Have whoever holds it close it; what it says of it, if somebody does."""

    async def announce(self, agency: str) -> None:
        """Tell all who hold threads of this agency that its terms have changed."""

    def lift_soon(self, agency: str) -> None:
        """Have the agency's `lift` called, beside whatever goes on."""

    async def lift(self, address: Address) -> None:
        """Tell a thread that there is more to spend."""

    async def report(self, agency: str, report: Report) -> None:
        """Hand a report to a thread of this agency."""

    def ring_at(self, agency: str, due: int | None) -> None:
        """Have the agency's `run_due` called then, and not before; None is never."""


class ThreadListing(Wire):
    threads: tuple[ThreadSummary, ...]
    next: int | None = None
    """The cursor of the next page; None if this is the last."""


class Agency:
    EXPOSED = frozenset(
        {"info", "rename", "delete", "blueprints", "put_blueprint", "delete_blueprint"}
        | {
            "create_thread",
            "fork_thread",
            "spawn",
            "thread",
            "summary",
            "threads",
            "counts",
            "delete_thread",
            "journal",
        }
        | {"add_key", "key", "keys", "revoke_key", "check_key", "providers", "put_provider", "delete_provider"}
        | {"usage", "set_budget", "allowance", "policy", "set_policy"}
        | Scheduler.EXPOSED
    )
    """What can be called from outside."""

    def __init__(self, store: AgencyStore, agency_id: str, settings: Settings, system: System, others: Others) -> None:
        self._store = store
        self._journal = Journal(store)
        self._accounts = Accounts(store)
        self._scheduler = Scheduler(store, self, lambda due: others.ring_at(agency_id, due))
        self._system = system
        self._settings = settings
        self._moved = asyncio.Event()
        self._watchers = 0
        self._watched_until = 0.0
        self._files = Files(settings.data_dir)
        self._others = others
        self._id = agency_id
        self.deleting = store.is_deleting
        self.deleted = False

    @classmethod
    def open(
        cls,
        path: Path,
        settings: Settings,
        system: System,
        others: Others,
        create: AgencyInfo | None = None,
    ) -> Agency:
        store = AgencyStore.open(path, settings.files, create)
        try:
            return cls(store, path.parent.name, settings, system, others)
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        self._store.close()

    def method(self, name: str) -> Callable[..., Awaitable[Any]]:
        """One that is exposed."""
        found: Callable[..., Awaitable[Any]] = getattr(self._scheduler if name in Scheduler.EXPOSED else self, name)
        return found

    async def finish(self) -> None:
        """Carry on with what was interrupted."""
        if self.deleting:
            await self.delete()
            return
        for creation in self._store.unmade():
            try:
                await self._make(creation)
            except AgencyError as error:
                log.warning("thread %s cannot be made: %s", creation.metadata.id, error)
        await self._delete_marked()
        await self.lift()

    # The agency itself.

    async def info(self) -> AgencyInfo:
        return self._store.info()

    @checked
    async def rename(self, name: str) -> AgencyInfo:
        self._store.rename(checked_name(name))
        return self._store.info()

    async def delete(self) -> None:
        """Delete the agency with all its threads."""
        self.deleting = True
        self._wake_watchers()
        self._store.mark_all_deleting()
        await self._delete_marked()
        self.deleted = True
        self.close()
        shutil.rmtree(self._files.folder(self._id), ignore_errors=True)

    # What it wants to be asked about.

    async def policy(self) -> Policy:
        return self._store.policy()

    @checked
    async def set_policy(self, policy: Policy) -> Policy:
        """Which calls a person has to approve, whatever the blueprints say. It counts for every model's reply that
        comes from now on."""
        self._store.set_policy(policy)
        await self._others.announce(self._id)
        return policy

    # Where its models are.

    async def providers(self) -> list[ProviderInfo]:
        """Every provider that models can be named with, by name; the agency's own in the place of the others."""
        found = {name: ProviderInfo(name=name, source="code") for name in self._system().provider_names}
        found |= {name: ProviderInfo(name=name, source="settings") for name in self._settings.providers}
        for name, entry, made, changed in self._store.providers():
            found[name] = ProviderInfo(name=name, source="agency", entry=entry, created_at=made, updated_at=changed)
        return [found[name] for name in sorted(found)]

    @checked
    async def put_provider(self, name: ProviderName, entry: Provider) -> ProviderInfo:
        """Add a provider, or put another in its place. It counts for every model call that begins from now on."""
        _check_own(entry)
        own = {each for each, *_ in self._store.providers()}
        if len(own | {name}) > PROVIDERS_MOST:
            raise InvalidInput(f"an agency has at most {PROVIDERS_MOST} providers of its own")
        self._store.put_provider(name, entry, timestamp(now_ms()))
        await self._others.announce(self._id)
        return next(each for each in await self.providers() if each.name == name)

    @checked
    async def delete_provider(self, name: str) -> None:
        """Remove one of the agency's own; if it was in the place of the installation's, that one counts again."""
        if name not in {each for each, *_ in self._store.providers()}:
            raise NotFound(f"the agency has no provider {name!r:.100} of its own")
        self._store.drop_provider(name)
        await self._others.announce(self._id)

    def _entries(self) -> dict[str, Provider]:
        return {**self._settings.providers, **{name: entry for name, entry, *_ in self._store.providers()}}

    # What it uses and may use.

    async def usage(self) -> AgencyUsage:
        """What all threads have used, those that were deleted too."""
        return self._accounts.usage()

    @checked
    async def set_budget(self, budget: Budget) -> AgencyUsage:
        """What all threads may use together. Those that had used it up go on, if there is more now."""
        self._store.set_budget(budget)
        await self._others.announce(self._id)
        self._others.lift_soon(self._id)
        return self._accounts.usage()

    async def allowance(self, thread_id: str, spent: Spent) -> str | None:
        """Whether a thread that has used so much may call a model, or the code of the budget that is used up."""
        return self._accounts.allow(thread_id, spent)

    async def lift(self) -> None:
        """Tell the threads that were refused that there is more to spend, if there is; all of them, however often it
        takes. Whoever dies meanwhile begins again, so one that is told twice knows what to do."""
        told: set[str] = set()
        at_once = asyncio.Semaphore(TELLING_AT_ONCE)

        async def tell(thread_id: str) -> None:
            async with at_once:
                try:
                    await self._others.lift(Address(self._id, thread_id))
                except HOPELESS as error:
                    log.warning("thread %s cannot be told that it may go on: %s", thread_id, error)
                except AgencyError as error:
                    log.warning("thread %s cannot be told yet that it may go on: %s", thread_id, error)
                    return
            told.add(thread_id)

        while not self.deleting and self._accounts.exhausted is None:
            left = [each for each in self._accounts.refused() if each not in told]
            if not left:
                return
            await asyncio.gather(*map(tell, left))
            if not told.issuperset(left):
                await asyncio.sleep(AGAIN_SECONDS)

    # Blueprints.

    async def blueprints(self) -> list[BlueprintInfo]:
        """Every agent that threads can be made for, by name; the agency's own in the place of the code's."""
        found = {name: _as_info(each, "static") for name, each in self._system().agents.items()}
        for own, created, updated in self._store.blueprints():
            found[own.name] = _as_info(own, "agency", created, updated)
        return [found[name] for name in sorted(found)]

    @checked
    async def put_blueprint(self, fields: Mapping[str, JsonValue]) -> BlueprintInfo:
        """Add a blueprint, or change one: what is not given stays as it was. Threads to come get it, at once."""
        name = fields.get("name")
        before = self._blueprint(name) if isinstance(name, str) else None
        known = before.model_dump(mode="json", by_alias=False) if before is not None else {}
        given = {_FIELDS.get(field, field): value for field, value in fields.items()}
        try:
            blueprint = Blueprint.model_validate(sayable({**known, **given}))
        except ValidationError as error:
            raise InvalidInput(f"wrong blueprint: {explain(error)}") from error
        self._system().check(blueprint, self._entries())
        self._store.put_blueprint(blueprint, timestamp(now_ms()))
        return next(each for each in await self.blueprints() if each.name == blueprint.name)

    @checked
    async def delete_blueprint(self, name: str) -> None:
        """Remove one of the agency's own; if it was in the place of the code's, that one counts again."""
        if self._store.blueprint(name) is None:
            raise NotFound(f"the agency has no blueprint {name!r} of its own")
        self._store.drop_blueprint(name)

    def _blueprint(self, name: str) -> Blueprint | None:
        return self._store.blueprint(name) or self._system().agents.get(name)

    async def _active(self, agent_type: str) -> Blueprint:
        blueprint = self._blueprint(agent_type)
        if blueprint is None:
            known = ", ".join(each.name for each in await self.blueprints())
            raise NotFound(f"there is no agent {agent_type!r}; there are {known or 'none'}")
        if blueprint.status != "active":
            raise InvalidInput(f"agent {agent_type!r} is {blueprint.status} and starts no threads")
        return blueprint

    # Keys.

    @checked
    async def add_key(self, key_id: str, name: str, role: KeyRole, digest: str) -> KeyInfo:
        """Let in whoever shows the key with this digest. Its maker has named it, so adding it again changes nothing."""
        made = KeyInfo(id=key_id, name=checked_name(name, "a key"), role=role, created_at=timestamp(now_ms()))
        self._store.add_key(made, digest)
        known = self._store.key(key_id)
        assert known is not None
        return known[0]

    @checked
    async def key(self, key_id: str) -> KeyInfo:
        """A key by its id; `NotFound` if it was revoked or never given out."""
        known = self._store.key(key_id)
        if known is None:
            raise NotFound(f"agency {self._id!r} has no key {key_id!r:.100}")
        return known[0]

    async def keys(self) -> list[KeyInfo]:
        return self._store.keys()

    @checked
    async def revoke_key(self, key_id: str) -> None:
        known = await self.key(key_id)
        self._store.drop_key(known.id)

    @checked
    async def check_key(self, key_id: str, digest: str) -> KeyInfo | None:
        """The key that somebody has shown, if it is one of ours."""
        known = self._store.key(key_id)
        return known[0] if known is not None and hmac.compare_digest(known[1], digest) else None

    # Threads.

    @checked
    async def create_thread(
        self,
        agent_type: str,
        messages: Sequence[Message] = (),
        *,
        thread_id: str | None = None,
        request: RequestContext | None = None,
        limits: Limits | None = None,
        files: Mapping[str, str] | None = None,
        output_schema: Schema | None = None,
        schedule_id: str | None = None,
    ) -> ThreadMetadata:
        """A new thread for an agent, at work if there are messages. With the id of one that was made so, that one."""
        first = checked_messages(messages, longest=self._settings.message_chars) if messages else ()
        address = Address(self._id, thread_id or f"thr_{secrets.token_hex(10)}")
        if self._store.is_being_deleted(address.thread):
            raise WrongState(f"thread {address.thread!r} is being deleted")
        known = self._store.thread(address.thread)
        if known is not None and known.agent_type != agent_type:
            raise WrongState(f"there is a thread {address.thread!r} already, of agent {known.agent_type!r}")
        metadata = known or ThreadMetadata(
            id=address.thread,
            agent_type=agent_type,
            created_at=timestamp(now_ms()),
            agency_id=self._id,
            request=request or RequestContext(),
            schedule_id=schedule_id,
        )
        blueprint = await self._active(agent_type)
        if output_schema is not None:
            as_schema(output_schema)  # what is wrong with it is said before anything is made
        await self._register(
            Creation(
                metadata=metadata,
                blueprint=blueprint,
                messages=first,
                limits=limits,
                files=dict(files or {}),
                output_schema=output_schema,
            )
        )
        return metadata

    @checked
    async def fork_thread(
        self,
        source: str,
        messages: Sequence[Message] = (),
        *,
        after_seq: Seq | None = None,
        before_message: str | None = None,
        thread_id: str | None = None,
        request: RequestContext | None = None,
    ) -> ThreadMetadata:
        """A new thread that begins as another one was, at work if there are messages. With the id of one that was made
        so, that one."""
        first = checked_messages(messages, longest=self._settings.message_chars) if messages else ()
        address = Address(self._id, thread_id or f"thr_{secrets.token_hex(10)}")
        if self._store.is_being_deleted(address.thread):
            raise WrongState(f"thread {address.thread!r} is being deleted")
        if self._store.thread(address.thread) is None:
            await self.thread(source)
            path = self._files.of(Address(self._id, source))
            origin = await asyncio.to_thread(find_origin, path, after=after_seq, before=before_message)
            metadata = origin.fork(address.thread).model_copy(update={"request": request or RequestContext()})
            creation = Creation(
                metadata=metadata,
                blueprint=Blueprint.model_validate_json(origin.blueprint),
                messages=first,
                fork=origin.cut,
            )
            self._store.add_thread(creation)
        made = await self.thread(address.thread)
        if made.forked_from is None or made.forked_from.thread_id != source:
            raise WrongState(f"there is a thread {made.id!r} already, and it is no fork of {source!r}")
        if (unmade := self._store.creation(made.id)) is not None:  # as it was first asked for
            await self._make(unmade)
        return made

    async def spawn(self, order: Spawn) -> None:
        """Make the child that a thread has asked for, and start it."""
        if self._store.thread(order.parent.thread_id) is None:
            return  # deleted meanwhile; nobody waits for this child
        metadata = ThreadMetadata(
            id=order.to,
            agent_type=order.agent_type,
            created_at=timestamp(now_ms()),
            agency_id=self._id,
            request=order.request,
            parent=order.parent,
        )
        blueprint = await self._active(order.agent_type)
        first = (Message(role="user", content=order.message),)
        await self._register(
            Creation(
                metadata=metadata,
                blueprint=blueprint,
                messages=first,
                key=f"{OURS}spawn:{order.parent.token}",
                files=order.files,
            )
        )

    async def _register(self, creation: Creation) -> None:
        self._system().check(creation.blueprint, self._entries())
        creation = self._store.add_thread(creation)
        await self._make(creation)

    async def _make(self, creation: Creation) -> None:
        address = Address(self._id, creation.metadata.id)
        try:
            await self._others.create(creation)
        except HOPELESS:
            if self._store.forget_unmade(creation.metadata.id):  # its file may have been begun
                await self._others.evict(address)
                self._files.remove(address)
            raise
        self._store.thread_made(creation.metadata.id)

    @checked
    async def thread(self, thread_id: str) -> ThreadMetadata:
        found = self._store.thread(thread_id)
        if found is None:
            raise NotFound(f"agency {self._id!r} has no thread {thread_id!r}")
        return found

    @checked
    async def summary(self, thread_id: str) -> ThreadSummary:
        """A thread, and what it is doing."""
        found = self._store.summary(thread_id)
        if found is None:
            raise NotFound(f"agency {self._id!r} has no thread {thread_id!r}")
        return found

    @checked
    async def threads(
        self,
        after: Seq = 0,
        limit: int = 100,
        *,
        parent: str | None = None,
        status: RunStatus | None = None,
        reason: PauseReason | tuple[PauseReason, ...] | None = None,
        newest_first: bool = False,
    ) -> ThreadListing:
        """The threads in the order in which they were made; `parent` asks for one thread's children."""
        if not 1 <= limit <= PAGE_MOST:
            raise InvalidInput(f"a page has 1 to {PAGE_MOST} threads")
        found = self._store.threads(
            after, limit + 1, newest_first=newest_first, parent=parent, status=status, reason=reason
        )
        more = found[limit - 1][0] if len(found) > limit else None
        return ThreadListing(threads=tuple(summary for _, summary in found[:limit]), next=more)

    async def counts(self) -> dict[str, int]:
        """How many threads are in each status."""
        return dict.fromkeys(get_args(RunStatus), 0) | self._store.counts()

    @checked
    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with all its descendants. A parent that waits for it is told that it was canceled."""
        if not self._store.is_being_deleted(thread_id):
            await self.thread(thread_id)
            self._store.mark_deleting(thread_id)
            self._scheduler.go_on()
        await self._delete_marked()

    async def _delete_marked(self) -> None:
        """Finish every deletion that has begun. What cannot be finished yet is tried again with the next one."""
        marked = self._store.deleting()
        ids = {metadata.id for metadata in marked}
        for metadata in marked:
            address = Address(self._id, metadata.id)
            used = glance(self._files.of(address)).spent
            self._files.remove(address)  # first, so that nobody can wake it again
            latest = await self._others.evict(address)
            self._accounts.settle(metadata.id, used if latest is None else latest.spent)
            self._files.remove(address)
            try:
                if metadata.parent is not None and metadata.parent.thread_id not in ids:
                    await self._others.report(self._id, _deleted(metadata.id, metadata.parent))
            except HOPELESS as error:
                log.warning("the parent of %s cannot be told that it is gone: %s", metadata.id, error)
            except AgencyError as error:
                log.warning("the parent of %s cannot be told yet that it is gone: %s", metadata.id, error)
                continue
            self._store.forget_thread(metadata.id)

    # Threads that nobody asks for.

    async def accept(self, schedule: Schedule) -> None:
        """Refuse a schedule that could start no thread now."""
        checked_messages(schedule.message, longest=self._settings.message_chars)
        await self._active(schedule.agent_type)

    async def begin(self, thread_id: str, schedule: ScheduleInfo) -> None:
        """Make the thread of a schedule's run, or what is left to do of that."""
        if (begun := self._store.creation(thread_id)) is not None:
            await self._make(begun)
        elif self._store.thread(thread_id) is None:
            first = (Message(role="user", content=schedule.message),)
            asked: dict[str, Any] = {"limits": schedule.limits, "schedule_id": schedule.id}
            await self.create_thread(schedule.agent_type, first, thread_id=thread_id, **asked)

    async def run_due(self) -> None:
        """Start the threads that schedules want by now."""
        await self._scheduler.run_due()

    # What they are doing, and their events in one row.

    def take(self, news: Sequence[ThreadUpdate]) -> None:
        """Write down where threads stand, and tell those who wait for events."""
        if self.deleting:
            return
        self._journal.take(news)
        self._wake_watchers()
        if any(each.status in ENDED for each in news):
            self._scheduler.go_on()
        if any(each.reason == "exhausted" for each in news) and self._accounts.exhausted is None:
            self._others.lift_soon(self._id)  # it was refused before the budget was raised, and paused after

    @property
    def watched(self) -> bool:
        """Whether somebody waits for events, or has just done so."""
        return self._watchers > 0 or time.monotonic() < self._watched_until

    @checked
    async def journal(self, after: Seq | None = 0, limit: int = 1_000, *, wait: float = 0.0) -> JournalPage:
        """Where the events after a cursor are; None is after the latest. With `wait`, there is at least one of them,
        or nothing has happened for so many seconds."""
        if not 1 <= limit <= JOURNAL_MOST or not 0 <= wait <= WAIT_MOST:
            raise InvalidInput(f"a page has 1 to {JOURNAL_MOST} events and is waited for 0 to {WAIT_MOST:g} seconds")
        if after is None:
            page = JournalPage((), self._journal.end)
        else:
            page = self._journal.page(after, limit)
            if page.upto == after and wait:
                page = await self._next_page(after, limit, wait)
        return replace(page, born=self._store.info().created_at)

    async def _next_page(self, after: int, limit: int, wait: float) -> JournalPage:
        self._watchers += 1
        try:
            async with asyncio.timeout(wait):
                while (page := self._journal.page(after, limit)).upto == after:
                    await self._moved.wait()
                    if self.deleting:
                        raise NotFound(f"there is no agency {self._id!r}")
        except TimeoutError:
            return JournalPage((), after)
        finally:
            self._watchers -= 1
            self._watched_until = time.monotonic() + LINGER_SECONDS
        return page

    def _wake_watchers(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


def _deleted(thread_id: str, parent: ParentInfo) -> Report:
    gone = "the thread was deleted"
    return Report(to=parent.thread_id, thread_id=thread_id, token=parent.token, status="canceled", report=gone)


def _check_own(entry: Provider) -> None:
    """Refuse an entry that would send the installation's secrets to wherever an agency likes."""
    allowed = f"env:{FOR_AGENCIES}"
    if strange := sorted(each for each in entry.references if not each.startswith(allowed)):
        raise InvalidInput(
            f"an agency's provider refers to variables whose names begin with {FOR_AGENCIES}, as in '{allowed}MINE', "
            f"and to nothing else; not to {', '.join(strange)}"
        )
    if entry.base_url is None and entry.key is None:
        raise InvalidInput(
            f"an agency's provider needs a `key` of its own, as in '{allowed}MINE', or the `baseUrl` of a server that "
            "wants none: without either it would use the installation's key"
        )


def checked_name(name: object, whose: str = "an agency") -> str:
    if not isinstance(name, str) or not 1 <= len(name.strip()) <= 200:
        raise InvalidInput(f"{whose}'s name is text of 1 to 200 characters")
    return sayable_text(name.strip())


def _as_info(
    blueprint: Blueprint, source: Literal["static", "agency"], created: str | None = None, updated: str | None = None
) -> BlueprintInfo:
    return BlueprintInfo(**blueprint.model_dump(by_alias=False), source=source, created_at=created, updated_at=updated)
