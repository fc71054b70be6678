"""An agency's threads: making them, finding them, and listing what they are doing.

That a thread is to be made is written down first, with everything that it takes (`Creation`); only then a host is
ordered to make it. An agency that dies in between finds the entry when it is next awake (`finish`) and orders again.
An id names one thread for good: asking again with the same id makes no second one.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import get_args

from actors.agency import thread_titles
from actors.agency.catalogue import Catalogue
from actors.agency.context import AgencyContext
from actors.agency.creation import Creation
from actors.agency.limits import StorageLimits
from actors.agency.pages import check_limit
from actors.operations import Seq, index_operation, operation, urgent
from agency.api.tenancy import ThreadSummary
from agency.children.parcels import Spawn
from agency.clock import now_ms
from agency.define.blueprint import Blueprint
from agency.define.options import NO_OPTIONS, RunOptions
from agency.define.output import as_schema
from agency.errors import AgencyError, Damaged, InvalidInput, NotFound, WrongState, no_agency
from agency.events import OURS, timestamp
from agency.idempotency import check_repeated, request_digest
from agency.json_schema import Schema
from agency.local import HOPELESS
from agency.messages import Message
from agency.metadata import ParentInfo, RequestContext, ThreadMetadata
from agency.schedules.schedule import Schedule, ScheduleInfo
from agency.store.forking import find_origin
from agency.store.peek import glance
from agency.thread.invocation import checked_messages
from agency.thread.reading import stored_run
from agency.thread.views import RunEnvelope
from agency.turn.state import Limits, PauseReason, RunStatus
from agency.wire import Wire

log = logging.getLogger(__name__)


class ThreadListing(Wire):
    threads: tuple[ThreadSummary, ...]
    next: int | None = None
    """The cursor of the next page; None if this is the last."""


class AgencyThreads:
    def __init__(self, context: AgencyContext, catalogue: Catalogue) -> None:
        self._context = context
        self._store = context.store
        self._limits = StorageLimits(context.settings, context.store)
        self._catalogue = catalogue

    # Making them. What callers send was checked where it entered (`AgencyHandle`, `ThreadHandle`).

    @operation
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
        options: RunOptions = NO_OPTIONS,
    ) -> ThreadMetadata:
        """A new thread for an agent, at work if there are messages. With the id of a thread that was made so before,
        that thread; with the id of one that was made otherwise, `KeyReused` is raised."""
        new = self._new_id(thread_id)
        self._limits.check_creation(messages, files, options, output_schema)
        digest = _digest(messages, options, limits, agent_type=agent_type, files=files, output_schema=output_schema)
        await self._give_way()  # all of this may be large
        check_repeated(self._store.thread_digest(new), digest)
        known = self._store.thread(new)
        if known is not None and known.agent_type != agent_type:
            raise WrongState(f"there is a thread {new!r} already, of agent {known.agent_type!r}")
        blueprint = self._catalogue.active(agent_type)
        _check_has_run(options, messages, limits, output_schema)
        if output_schema is not None:
            as_schema(output_schema)  # refuses a wrong schema before anything is made
        creation = Creation(
            metadata=known or self._metadata(new, agent_type, request),
            blueprint=blueprint,
            messages=tuple(messages),
            limits=limits,
            files=dict(files or {}),
            output_schema=output_schema,
            options=options,
            digest=digest,
        )
        return await self._register(creation)

    @operation
    async def fork_thread(
        self,
        source: str,
        messages: Sequence[Message] = (),
        *,
        after_seq: Seq | None = None,
        before_message: str | None = None,
        thread_id: str | None = None,
        request: RequestContext | None = None,
        options: RunOptions = NO_OPTIONS,
    ) -> ThreadMetadata:
        """A new thread that begins as another one was, at work if there are messages. With the id of a thread that was
        made so before, that thread; with the id of one that was made otherwise, `KeyReused` is raised."""
        new = self._new_id(thread_id)
        self._limits.check_creation(messages, options)
        digest = _digest(messages, options, source=source, after_seq=after_seq, before_message=before_message)
        await self._give_way()
        check_repeated(self._store.thread_digest(new), digest)
        made = self._store.thread(new)
        if made is None:
            _check_has_run(options, messages)
            await self.thread(source)
            path = self._context.files.of(self._context.address(source))
            try:
                origin = await asyncio.to_thread(find_origin, path, after=after_seq, before=before_message)
            except NotFound as error:
                raise self._lost(source, error) from error
            metadata = origin.fork(new).model_copy(update={"request": request or RequestContext()})
            blueprint = Blueprint.model_validate_json(origin.blueprint)
            creation = Creation(
                metadata=metadata,
                blueprint=blueprint,
                messages=tuple(messages),
                fork=origin.cut,
                options=options,
                digest=digest,
            )
            made = self._add(creation).metadata  # another caller may have been quicker
            check_repeated(self._store.thread_digest(new), digest)
        if made.forked_from is None or made.forked_from.thread_id != source:
            raise WrongState(f"there is a thread {new!r} already, and it is no fork of {source!r}")
        if (unmade := self._store.creation(new)) is not None:  # as it was asked for first
            await self._make(unmade)
        return made

    def _lost(self, thread_id: str, missing: NotFound) -> AgencyError:
        """Why the file of a registered thread holds none: it has not begun yet, or what it held is lost."""
        known = self._store.summary(thread_id)
        if known is None or not known.seq:
            return missing
        return Damaged(f"the file of thread {thread_id!r} is missing or empty, and the agency knows of events in it")

    @urgent
    @operation
    async def spawn(self, order: Spawn) -> None:
        """Make the child that a thread has asked for, and start it."""
        if self._store.thread(order.to) is None:  # otherwise the order has come before
            self._check_family(order.parent)
            await self._context.pace.turn()
        if self._store.thread(order.parent.thread_id) is None:
            return  # the parent was deleted meanwhile, and with it the call that waits for this child
        metadata = self._metadata(order.to, order.agent_type, order.request, parent=order.parent)
        own = order.blueprint
        await self._register(
            Creation(
                metadata=metadata,
                blueprint=self._catalogue.active(order.agent_type) if own is None else self._catalogue.given(own),
                messages=(Message(role="user", content=order.message),),
                key=f"{OURS}spawn:{order.parent.token}",
                files=order.files,
                options=RunOptions.model_validate(order.options),
            )
        )

    def _check_family(self, parent: ParentInfo) -> None:
        """Refuse a child that is one too many. Blueprints have lower limits as a rule, but admins write them."""
        settings = self._context.settings
        if parent.depth > settings.generations_most:
            raise InvalidInput(
                f"agents may start agents {settings.generations_most} deep here (AGENCY_GENERATIONS_MOST)"
            )
        if self._store.children_at_work(parent.thread_id, settings.children_most) >= settings.children_most:
            raise InvalidInput(
                f"thread {parent.thread_id!r} has {settings.children_most} subagents at work, which is the most there "
                "may be here (AGENCY_CHILDREN_MOST): wait for one to end"
            )

    def check_schedule(self, schedule: Schedule) -> None:
        """Refuse a schedule that could start no thread now."""
        checked_messages(schedule.message, longest=self._context.settings.message_chars)
        self._catalogue.check_options(self._catalogue.active(schedule.agent_type), schedule.run_options)

    async def make_scheduled(self, thread_id: str, schedule: ScheduleInfo) -> None:
        """Make the thread of a schedule's run, or what is left to do of that. Doing it again changes nothing."""
        if (begun := self._store.creation(thread_id)) is not None:
            await self._make(begun)
        elif self._store.thread(thread_id) is None:
            metadata = self._metadata(self._new_id(thread_id), schedule.agent_type, schedule_id=schedule.id)
            await self._register(
                Creation(
                    metadata=metadata,
                    blueprint=self._catalogue.active(schedule.agent_type),
                    messages=checked_messages(schedule.message, longest=self._context.settings.message_chars),
                    limits=schedule.limits,
                    options=schedule.run_options,
                )
            )

    async def finish(self) -> None:
        """Make the threads whose making was interrupted."""
        for creation in self._store.unmade():
            try:
                await self._make(creation)
            except AgencyError as error:
                log.warning("thread %s cannot be made: %s", creation.metadata.id, error)

    def _new_id(self, thread_id: str | None) -> str:
        new = self._context.address(thread_id or f"thr_{secrets.token_hex(10)}").thread
        if self._store.is_being_deleted(new):
            raise WrongState(f"thread {new!r} is being deleted")
        return new

    def _metadata(
        self,
        thread_id: str,
        agent_type: str,
        request: RequestContext | None = None,
        *,
        parent: ParentInfo | None = None,
        schedule_id: str | None = None,
    ) -> ThreadMetadata:
        return ThreadMetadata(
            id=thread_id,
            agent_type=agent_type,
            created_at=timestamp(now_ms()),
            agency_id=self._context.id,
            request=request or RequestContext(),
            parent=parent,
            schedule_id=schedule_id,
        )

    async def _register(self, creation: Creation) -> ThreadMetadata:
        self._catalogue.check(creation.blueprint)
        creation = self._add(creation)
        await self._make(creation)
        return creation.metadata

    async def _give_way(self) -> None:
        """Let others have their turns. The agency may have been deleted meanwhile."""
        await self._context.installation.give_way(self._context.id)
        if self._context.deleting:
            raise no_agency(self._context.id)

    def _add(self, creation: Creation) -> Creation:
        """Register a thread. The agency may have begun to be deleted since the call began: what is registered after its
        threads were marked would stay behind."""
        if self._context.deleting:
            raise no_agency(self._context.id)
        return self._store.add_thread(creation)

    async def _make(self, creation: Creation) -> None:
        address = self._context.address(creation.metadata.id)
        try:
            await self._context.installation.create(creation)
        except HOPELESS:
            if self._store.forget_unmade(creation.metadata.id):  # its file may have been begun
                await self._context.installation.evict(address)
                self._context.files.remove(address)
            raise
        self._store.thread_made(creation.metadata.id)

    # Finding them.

    @operation
    async def thread(self, thread_id: str) -> ThreadMetadata:
        """What a thread was made as."""
        found = self._store.thread(thread_id)
        if found is None:
            raise NotFound(f"agency {self._context.id!r} has no thread {thread_id!r}")
        return found

    @operation
    async def stored_run(self, thread_id: str) -> RunEnvelope:
        """A thread's latest run as its file has it, for a caller who could not wait until the thread was awake."""
        await self.thread(thread_id)
        return stored_run(self._context.files.of(self._context.address(thread_id)), self._context.system())

    @index_operation
    async def summary(self, thread_id: str) -> ThreadSummary:
        """What a thread is, and what it was doing a moment ago. It is not woken for that."""
        await self._look_up_titles([thread_id])
        found = self._store.summary(thread_id)
        if found is None:
            raise NotFound(f"agency {self._context.id!r} has no thread {thread_id!r}")
        return found

    @index_operation
    async def rename_thread(self, thread_id: str, title: str | None) -> ThreadSummary:
        """Give a thread the title that a person wants; None or a blank one gives it back its own."""
        await self.thread(thread_id)
        thread_titles.rename(self._store, thread_id, title)
        return await self.summary(thread_id)

    @index_operation
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
        """The threads and what they are doing, the oldest or the newest first; `parent` asks for one thread's
        children."""
        check_limit(limit, "threads")
        found, more = self._store.threads(
            after,
            limit,
            self._context.settings.page_bytes,
            newest_first=newest_first,
            parent=parent,
            status=status,
            reason=reason,
        )
        if titles := await self._look_up_titles([each.id for _, each in found if each.title is None]):
            found = [(n, each.model_copy(update={"title": titles.get(each.id) or each.title})) for n, each in found]
        return ThreadListing(threads=tuple(summary for _, summary in found), next=found[-1][0] if more else None)

    async def _look_up_titles(self, threads: Sequence[str]) -> dict[str, str]:
        """Read the titles of threads of which only an earlier release has told, from their files; the new ones."""
        if not threads or not (untitled := thread_titles.untitled(self._store, threads)):
            return {}
        paths = {each: self._context.files.of(self._context.address(each)) for each in untitled}
        titles = await asyncio.to_thread(lambda: {each: glance(path).title for each, path in paths.items()})
        thread_titles.set_titles(self._store, titles)
        return titles

    @index_operation
    async def counts(self) -> dict[str, int]:
        """How many threads are in each status."""
        return dict.fromkeys(get_args(RunStatus), 0) | self._store.counts()


def _check_has_run(
    options: RunOptions, messages: Sequence[Message], limits: Limits | None = None, output_schema: Schema | None = None
) -> None:
    """What is for one run is not lost for want of a run."""
    if not messages and (options != NO_OPTIONS or limits is not None or output_schema is not None):
        raise InvalidInput(
            "model, params, tools, options, limits and outputSchema are for the run that a message starts: give a "
            "message, too, or give them with the first one"
        )


def _digest(messages: Sequence[Message], options: RunOptions, limits: Limits | None = None, **asked: object) -> str:
    """Of what a caller asks for; where the request comes from is no part of it."""
    return request_digest(
        messages=[message.model_dump(mode="json", exclude_defaults=True) for message in messages],
        limits=None if limits is None else limits.model_dump(mode="json", exclude_defaults=True),
        options=options.model_dump(mode="json", exclude_defaults=True),
        **asked,
    )
