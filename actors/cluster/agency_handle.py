"""An agency as its clients have it, wherever it is.

Most operations are one line, `remote(...)`, which takes signature and description from the operation itself. Written
out is only what happens in the client's process: messages are checked, and ids and keys are made here, so that a call
whose answer was lost can be repeated without making a second thing.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from pydantic import JsonValue
from typing_extensions import Unpack

from actors.address import Address
from actors.agency.access import Access
from actors.agency.agency import Agency
from actors.agency.budget_keeper import BudgetKeeper
from actors.agency.calls import AgencyCalls
from actors.agency.catalogue import Catalogue
from actors.agency.deletion import ThreadDeletion
from actors.agency.keys import Key
from actors.agency.overview import Overview
from actors.agency.scheduling import Scheduler
from actors.agency.shelves import AgencyShelves
from actors.agency.threads import AgencyThreads
from actors.cluster.connection import Connection
from actors.cluster.thread_handle import ThreadHandle, new_thread_id
from actors.operations import remote
from agency.api.tenancy import KeyInfo, KeyRole, NewKey
from agency.define.options import RunOptionFields, as_options
from agency.define.output import OutputType, as_schema
from agency.errors import AgencyError, NotFound
from agency.messages import Message
from agency.metadata import RequestContext
from agency.schedules.schedule import ScheduleInfo, ScheduleRun
from agency.turn.state import Limits


class AgencyHandle:
    def __init__(self, connection: Connection, agency_id: str) -> None:
        self._connection = connection
        self.id = Address(agency_id).agency
        self._calls = AgencyCalls(connection.caller, self.id)

    async def _call(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], done: type[AgencyError] | None
    ) -> Any:
        return await self._connection.caller.call_agency(self.id, name, args, kwargs, done)

    info = remote(Agency.info)
    rename = remote(Agency.rename)
    delete = remote(Agency.delete, done=NotFound)
    layers = remote(Agency.layers)
    policy = remote(Agency.policy)
    set_policy = remote(Agency.set_policy)
    usage = remote(BudgetKeeper.usage)
    set_budget = remote(BudgetKeeper.set_budget)
    ceiling = remote(BudgetKeeper.ceiling)
    set_ceiling = remote(BudgetKeeper.set_ceiling)
    providers = remote(Catalogue.providers)
    put_provider = remote(Catalogue.put_provider)
    delete_provider = remote(Catalogue.delete_provider, done=NotFound)
    blueprints = remote(Catalogue.blueprints)
    put_blueprint = remote(Catalogue.put_blueprint)
    resolve_blueprint = remote(Catalogue.resolve_blueprint)
    delete_blueprint = remote(Catalogue.delete_blueprint, done=NotFound)
    key = remote(Access.key)
    keys = remote(Access.keys)
    revoke_key = remote(Access.revoke_key, done=NotFound)
    threads = remote(AgencyThreads.threads)
    counts = remote(AgencyThreads.counts)
    rename_thread = remote(AgencyThreads.rename_thread)
    search = remote(Overview.search)
    statistics = remote(Overview.statistics)
    delete_thread = remote(ThreadDeletion.delete_thread, done=NotFound)
    schedules = remote(Scheduler.schedules)
    schedule = remote(Scheduler.schedule)
    change_schedule = remote(Scheduler.change_schedule)
    delete_schedule = remote(Scheduler.delete_schedule, done=NotFound)
    schedule_runs = remote(Scheduler.schedule_runs)
    shelves = remote(AgencyShelves.shelves)
    shelf_entries = remote(AgencyShelves.shelf_entries)
    read_shelf = remote(AgencyShelves.read_shelf)
    write_shelf = remote(AgencyShelves.write_shelf, keyed=True)
    delete_shelf_entry = remote(AgencyShelves.delete_shelf_entry, done=NotFound)

    # Threads.

    async def create_thread(
        self,
        agent: str,
        message: str | Message | Sequence[Message] = (),
        *,
        thread_id: str | None = None,
        request: RequestContext | None = None,
        limits: Limits | None = None,
        files: Mapping[str, str] | None = None,
        output_schema: OutputType | None = None,
        **options: Unpack[RunOptionFields],
    ) -> ThreadHandle:
        """A new thread for an agent, at work at once if there is a message; `files` are text by path. `limits`,
        `output_schema` and the `options` (`RunOptions`) are in the place of the blueprint's, for that first run."""
        created = await self._calls.create_thread(
            agent,
            self._connection.checked(message),
            thread_id=thread_id or new_thread_id(),
            request=request,
            limits=limits,
            files=files,
            output_schema=None if output_schema is None else as_schema(output_schema),
            options=as_options(options),
        )
        return ThreadHandle(self._connection, Address(self.id, created.id), created)

    def thread(self, thread_id: str) -> ThreadHandle:
        """A thread by its id; that there is none shows when it is used."""
        return ThreadHandle(self._connection, Address(self.id, thread_id))

    # Schedules and keys.

    async def create_schedule(self, fields: Mapping[str, JsonValue], *, schedule_id: str | None = None) -> ScheduleInfo:
        """A new schedule (`Schedule` has its fields). With the id of a schedule that exists, that schedule."""
        return await self._calls.create_schedule(schedule_id or f"sch_{secrets.token_hex(8)}", fields)

    async def run_schedule(self, schedule_id: str, *, run_id: str | None = None) -> ScheduleRun:
        """Have a schedule run now, as its `overlap` says; with `skip`, not while a run of it is going on."""
        return await self._calls.run_schedule(schedule_id, run_id or f"srn_{secrets.token_hex(10)}")

    async def create_key(self, name: str, role: KeyRole) -> NewKey:
        """A key to this agency. Its secret is in the answer, and never leaves this process otherwise."""
        key = Key.new(self.id)
        made = await self._calls.add_key(key.id, name, role, key.digest)
        return NewKey(**made.model_dump(by_alias=False), key=key.text)

    async def check_key(self, key: str) -> KeyInfo | None:
        """The key that a caller has shown, if it is one of this agency's."""
        shown = Key.parse(key)
        if shown is None or shown.agency != self.id:
            return None
        try:
            return await self._calls.check_key(shown.id, shown.digest)
        except NotFound:  # keys go with their agency
            return None

    # The events of all its threads.

    async def cursor(self) -> int:
        """The number of its latest event."""
        return (await self._calls.journal(None)).upto

    async def stored_events(self, after: int = 0, limit: int = 100) -> list[str]:
        """The events of all threads after a cursor, as JSON: each as its thread has it, with a `cursor`."""
        return [event for _, event in await self._connection.agency_events(self.id, after, limit)]

    async def events(self, after: int | None = 0) -> AsyncGenerator[str, None]:
        """The same and then those to come, whatever dies meanwhile; None is from now on."""
        subscription = self._connection.subscribe_agency(self.id, after)
        try:
            async for _, event in subscription:
                yield event
        finally:
            subscription.close()
