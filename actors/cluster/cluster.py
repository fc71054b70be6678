"""The way in: join a cluster (or start one), and talk to agencies and threads by name from anywhere.

    cluster = await Cluster.join(system="shop.agents:system", data_dir="data")
    agency = await cluster.create_agency("bakery")
    thread = await agency.create_thread("support", "Where is order 7?")
    async for event in thread.events():
        …

Everything made here lives on after this process; `down` ends it all, and the next `join` continues it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal

import ray
from pydantic import JsonValue
from ray.exceptions import ActorDiedError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors import build
from actors.address import Address, Files
from actors.agency.agency import ThreadListing, checked_name
from actors.agency.journal import JournalPage
from actors.agency.keys import Key, digest
from actors.agency.store import peek_info
from actors.answers import unwrap
from actors.caller import Caller, Handle, find_directory
from actors.cluster import local_ray
from actors.directory.directory import Directory
from actors.feeds.agency_watcher import AgencySubscription, AgencyWatcher, EventReader
from actors.feeds.host_feed import NumberedEvent
from actors.feeds.watcher import Subscription, Watcher
from actors.settings import Settings, load_system, settings
from actors.status import Metrics, Readiness, Status
from agency.api.tenancy import (
    AgencyInfo,
    AgencyUsage,
    BlueprintInfo,
    Budget,
    KeyInfo,
    KeyRole,
    NewKey,
    ProviderInfo,
    ThreadSummary,
)
from agency.approvals.rules import Policy
from agency.clock import now_ms
from agency.errors import AgencyError, InvalidInput, NotFound, Unavailable, WrongState
from agency.events import OURS, Event, timestamp
from agency.json_schema import Schema
from agency.messages import Message
from agency.metadata import RequestContext, ThreadMetadata
from agency.models.providers.entry import Provider
from agency.schedules.schedule import ScheduleInfo, SchedulePage, ScheduleRun, ScheduleRunPage
from agency.store.draft import When
from agency.thread.invocation import checked_messages
from agency.thread.views import Accepted, FileInfo, RunEnvelope, RunState, ThreadState
from agency.turn.outcomes import Decision
from agency.turn.state import Limits, PauseReason, RunStatus

log = logging.getLogger(__name__)

REPLACED_TRIES = 100
WAIT_PIECE = 20.0
"""A long wait is made of calls of at most so many seconds, so that none outlives its host unnoticed."""

MOST = 2**53
READY_SECONDS = 2.5
TICKET_SECONDS = 3_600.0
GRANT_CHARS = 10_000


class Cluster:
    def __init__(self, configured: Settings, directory: Handle) -> None:
        self.settings = configured
        self._caller = Caller(directory, configured.namespace)
        self._watcher = Watcher(self._caller)
        self._files = Files(configured.data_dir)
        self._events = EventReader(self._caller, self._files)
        self._agency_watcher = AgencyWatcher(self._events)

    @classmethod
    async def join(
        cls, configured: Settings | None = None, /, *, start: bool = True, renew: bool = False, **given: object
    ) -> Cluster:
        """Join the installation that these settings describe; it is started if it does not run.

        Without `start`, whatever system runs there is joined. With `renew`, hosts that run other code than what is
        here, or have other providers or keys for the models, are ended and new ones started; runs go on as after a
        crash.
        """
        wanted = configured or settings(**given)
        if start:
            system = load_system(wanted)  # what is wrong with it shows before anything starts
            keys = build.environment([*system.providers.values(), *wanted.providers.values()])
            told = (wanted.system, wanted.python_path, wanted.providers, keys)
            built = await asyncio.to_thread(build.fingerprint, *told)
            wanted = wanted.model_copy(update={"build": built, "environment": keys})
        await asyncio.to_thread(local_ray.join, wanted, start=start)
        directory, running = await _described(wanted, start=start)
        if start and renew and running.system == wanted.system and running.build != wanted.build:
            log.warning("the code, the providers or the models' keys have changed: starting new hosts")
            await cls(running, directory).stop()
            directory, running = await _described(wanted, start=start)
        for what in ("system", "data_dir", "storage") if start else ("data_dir", "storage"):
            if getattr(running, what) != getattr(wanted, what):
                raise WrongState(
                    f"what runs in namespace {wanted.namespace!r} has {what} {str(getattr(running, what))!r}, "
                    f"not {str(getattr(wanted, what))!r}: stop it first (`agency down`), or use another folder"
                )
        return cls(running, directory)

    async def close(self) -> None:
        """Let go of it; everything goes on."""
        await self._watcher.close()
        await self._agency_watcher.close()

    async def stop(self) -> None:
        """Put every thread to rest and end all hosts. The next `join` continues it all."""
        await self.close()
        directory = self._caller.directory
        try:
            await directory.stop.remote()
        except ray.exceptions.RayActorError:
            return
        ray.kill(directory)

    async def down(self) -> None:
        """Put every thread to rest and end all hosts, and a local Ray with them. The next `join` continues it all."""
        await self.stop()
        await asyncio.to_thread(local_ray.stop, self.settings.data_dir)

    async def status(self) -> Status:
        status: Status = await self._caller.ask_directory("status")
        return status

    async def metrics(self) -> Metrics:
        """Figures: what has happened since the directory began, and how much there is now."""
        metrics: Metrics = await self._caller.ask_directory("metrics")
        return metrics

    async def ready(self) -> Readiness:
        """Whether a thread could run now. It answers within a few seconds and never raises, whatever is broken."""
        if not ray.is_initialized():
            return Readiness(ready=False, reason="this process has left Ray")
        try:
            async with asyncio.timeout(READY_SECONDS):
                found: Readiness = await self._caller.ask_directory("readiness")
                return found
        except TimeoutError:
            return Readiness(ready=False, reason="the directory does not answer")
        except AgencyError as error:
            return Readiness(ready=False, reason=str(error))
        except Exception as error:  # a broken Ray raises whatever it likes
            return Readiness(ready=False, reason=f"the directory cannot be reached: {type(error).__name__}")

    # Tickets.

    async def issue_ticket(self, grant: str, seconds: float) -> str:
        """A ticket that can be redeemed once, by any client of this installation, for what it grants."""
        _within("a ticket's time in seconds", seconds, 0, TICKET_SECONDS)
        if len(grant) > GRANT_CHARS:
            raise InvalidInput(f"what a ticket grants is text of at most {GRANT_CHARS} characters")
        ticket = secrets.token_urlsafe(32)  # ours, so that it goes no further
        await self._caller.ask_directory("issue_ticket", digest(ticket), grant, seconds)
        return ticket

    async def redeem_ticket(self, ticket: str) -> str | None:
        """What a ticket grants, once; None if there is no such ticket, or no more."""
        grant: str | None = await self._caller.ask_directory("redeem_ticket", digest(ticket))
        return grant

    # Agencies.

    async def create_agency(self, name: str, *, agency_id: str | None = None) -> AgencyHandle:
        """A new agency; with the id of one that is there, that one."""
        given = checked_name(name)
        address = Address(f"agc_{secrets.token_hex(8)}" if agency_id is None else agency_id)
        info = AgencyInfo(id=address.agency, name=given, created_at=timestamp(now_ms()))
        await self._caller.ask_directory("create_agency", info)
        return AgencyHandle(self, info.id)

    async def agencies(self, after: str = "", limit: int = 100) -> list[AgencyInfo]:
        """The agencies in the order of their ids."""
        _within("a page of agencies", limit, 1, 1_000, whole=True)
        return await asyncio.to_thread(self._list_agencies, after, limit)

    def _list_agencies(self, after: str, limit: int) -> list[AgencyInfo]:
        ids = [agency for agency in self._files.agencies() if agency > after][:limit]
        found = (peek_info(self._files.of(Address(agency))) for agency in ids)
        return [info for info in found if info is not None]

    def agency(self, agency_id: str) -> AgencyHandle:
        """An agency by its id; that there is none shows when it is used."""
        return AgencyHandle(self, agency_id)

    def thread(self, agency_id: str, thread_id: str) -> ThreadHandle:
        return ThreadHandle(self, Address(agency_id, thread_id))

    @property
    def caller(self) -> Caller:
        return self._caller

    def subscribe(self, address: Address, after: int) -> Subscription:
        return self._watcher.subscribe(address, after)

    def subscribe_agency(self, agency_id: str, after: int | None) -> AgencySubscription:
        """The stored events of all of an agency's threads after a cursor, then those to come; None is from now on."""
        if after is not None:
            _within("the cursor after which events begin", after, 0, MOST, whole=True)
        return self._agency_watcher.subscribe(Address(agency_id).agency, after)

    async def agency_events(self, agency_id: str, after: int, limit: int) -> list[NumberedEvent]:
        """A page of the stored events of all of an agency's threads, as JSON with their cursors."""
        _within("the cursor after which events begin", after, 0, MOST, whole=True)
        _within("a page of events", limit, 1, 1_000, whole=True)
        return await self._events.events(agency_id, after, limit)

    async def where(self, addresses: Sequence[Address]) -> Mapping[Address, str]:
        """The hosts of those that are awake; the others hibernate."""
        found: Mapping[Address, str] = await self._caller.ask_directory("where", list(addresses))
        return found


class AgencyHandle:
    """An agency, wherever it is."""

    def __init__(self, cluster: Cluster, agency_id: str) -> None:
        self._cluster = cluster
        self.id = Address(agency_id).agency

    async def _call(self, method: str, *args: object, done: type[AgencyError] | None = None, **kwargs: object) -> Any:
        return await self._cluster.caller.call_agency(self.id, method, *args, done=done, **kwargs)

    async def info(self) -> AgencyInfo:
        info: AgencyInfo = await self._call("info")
        return info

    async def rename(self, name: str) -> AgencyInfo:
        info: AgencyInfo = await self._call("rename", name)
        return info

    async def delete(self) -> None:
        """Delete the agency with all its threads and files."""
        await self._call("delete", done=NotFound)

    async def usage(self) -> AgencyUsage:
        """What all its threads have used, those that were deleted too, and its budget."""
        found: AgencyUsage = await self._call("usage")
        return found

    async def set_budget(self, budget: Budget) -> AgencyUsage:
        """What all threads may use together. Those that had used it up go on, if there is more now."""
        found: AgencyUsage = await self._call("set_budget", budget)
        return found

    async def policy(self) -> Policy:
        """Which calls a person has to approve, whatever the blueprints say."""
        found: Policy = await self._call("policy")
        return found

    async def set_policy(self, policy: Policy) -> Policy:
        """It counts for every model's reply that comes from now on."""
        found: Policy = await self._call("set_policy", policy)
        return found

    async def providers(self) -> list[ProviderInfo]:
        """Every provider that models can be named with; the agency's own in the place of the others."""
        found: list[ProviderInfo] = await self._call("providers")
        return found

    async def put_provider(self, name: str, entry: Provider) -> ProviderInfo:
        """Add a provider, or put another in its place. It counts for every model call that begins from now on."""
        made: ProviderInfo = await self._call("put_provider", name, entry)
        return made

    async def delete_provider(self, name: str) -> None:
        """Remove one of the agency's own; if it was in the place of the installation's, that one counts again."""
        await self._call("delete_provider", name, done=NotFound)

    async def blueprints(self) -> list[BlueprintInfo]:
        """Every agent that threads can be made for; the agency's own in the place of the code's."""
        found: list[BlueprintInfo] = await self._call("blueprints")
        return found

    async def put_blueprint(self, fields: Mapping[str, JsonValue]) -> BlueprintInfo:
        """Add a blueprint, or change one: what is not given stays as it was. Threads to come get it, at once."""
        made: BlueprintInfo = await self._call("put_blueprint", fields)
        return made

    async def delete_blueprint(self, name: str) -> None:
        await self._call("delete_blueprint", name, done=NotFound)

    async def schedules(self, after: int = 0, limit: int = 100) -> SchedulePage:
        """When it starts threads by itself, in the order in which that was said."""
        page: SchedulePage = await self._call("schedules", after, limit)
        return page

    async def schedule(self, schedule_id: str) -> ScheduleInfo:
        found: ScheduleInfo = await self._call("schedule", schedule_id)
        return found

    async def create_schedule(self, fields: Mapping[str, JsonValue], *, schedule_id: str | None = None) -> ScheduleInfo:
        """A new schedule (`Schedule` has its fields); with the id of one that is there, that one."""
        new = schedule_id or f"sch_{secrets.token_hex(8)}"  # ours, so that repeating the call makes no second one
        made: ScheduleInfo = await self._call("create_schedule", new, fields)
        return made

    async def change_schedule(
        self, schedule_id: str, fields: Mapping[str, JsonValue], status: Literal["active", "paused"] | None = None
    ) -> ScheduleInfo:
        """Change a schedule, pause it or have it go on; what is not given stays as it was."""
        changed: ScheduleInfo = await self._call("change_schedule", schedule_id, fields, status)
        return changed

    async def delete_schedule(self, schedule_id: str) -> None:
        """Delete a schedule with its history. The threads that it has started stay."""
        await self._call("delete_schedule", schedule_id, done=NotFound)

    async def run_schedule(self, schedule_id: str, *, run_id: str | None = None) -> ScheduleRun:
        """Have a schedule run now, as its `overlap` says; with `skip`, not while a run of it is going on."""
        run: ScheduleRun = await self._call("run_schedule", schedule_id, run_id or f"srn_{secrets.token_hex(10)}")
        return run

    async def schedule_runs(self, schedule_id: str, after: int = 0, limit: int = 100) -> ScheduleRunPage:
        """What came of a schedule, the newest first."""
        page: ScheduleRunPage = await self._call("schedule_runs", schedule_id, after, limit)
        return page

    async def create_key(self, name: str, role: KeyRole) -> NewKey:
        """A key to this agency. Its secret is in the answer, and nowhere else."""
        key = Key.new(self.id)  # ours, so that repeating the call makes no second one, and its secret stays here
        made: KeyInfo = await self._call("add_key", key.id, name, role, key.digest)
        return NewKey(**made.model_dump(by_alias=False), key=key.text)

    async def key(self, key_id: str) -> KeyInfo:
        """A key by its id; `NotFound` if it was revoked or never given out."""
        found: KeyInfo = await self._call("key", key_id)
        return found

    async def keys(self) -> list[KeyInfo]:
        found: list[KeyInfo] = await self._call("keys")
        return found

    async def revoke_key(self, key_id: str) -> None:
        """From now on the key opens nothing."""
        await self._call("revoke_key", key_id, done=NotFound)

    async def check_key(self, key: str) -> KeyInfo | None:
        """The key that somebody has shown, if it is one of this agency's."""
        shown = Key.parse(key)
        if shown is None or shown.agency != self.id:
            return None
        try:
            known: KeyInfo | None = await self._call("check_key", shown.id, shown.digest)
        except NotFound:  # keys go with their agency
            return None
        return known

    async def create_thread(
        self,
        agent_type: str,
        message: str | Message | Sequence[Message] = (),
        *,
        thread_id: str | None = None,
        request: RequestContext | None = None,
        limits: Limits | None = None,
        files: Mapping[str, str] | None = None,
        output_schema: Schema | None = None,
    ) -> ThreadHandle:
        """A new thread for an agent, at work at once if there is a message; `files` are text by path. `limits` and
        `output_schema` are in the place of the blueprint's, for that first run."""
        messages = () if message == () else checked_messages(message)
        new = thread_id or f"thr_{secrets.token_hex(10)}"  # ours, so that repeating the call makes no second one
        given: dict[str, Any] = {"request": request, "limits": limits, "files": files}
        await self._call("create_thread", agent_type, messages, thread_id=new, output_schema=output_schema, **given)
        return ThreadHandle(self._cluster, Address(self.id, new))

    def thread(self, thread_id: str) -> ThreadHandle:
        """A thread by its id; that there is none shows when it is used."""
        return ThreadHandle(self._cluster, Address(self.id, thread_id))

    async def threads(
        self,
        after: int = 0,
        limit: int = 100,
        *,
        parent: str | None = None,
        status: RunStatus | None = None,
        reason: PauseReason | tuple[PauseReason, ...] | None = None,
        newest_first: bool = False,
    ) -> ThreadListing:
        """The threads in the order in which they were made, or in the other one, with what they are doing."""
        wanted: dict[str, Any] = {"parent": parent, "status": status, "reason": reason}
        page: ThreadListing = await self._call("threads", after, limit, newest_first=newest_first, **wanted)
        return page

    async def counts(self) -> dict[str, int]:
        """How many threads are in each status."""
        found: dict[str, int] = await self._call("counts")
        return found

    async def cursor(self) -> int:
        """The number of its latest event."""
        page: JournalPage = await self._call("journal", None)
        return page.upto

    async def stored_events(self, after: int = 0, limit: int = 100) -> list[str]:
        """The events of all threads after a cursor, as JSON: each as its thread has it, with a `cursor`."""
        return [event for _, event in await self._cluster.agency_events(self.id, after, limit)]

    async def events(self, after: int | None = 0) -> AsyncGenerator[str, None]:
        """The same and then those to come, whatever dies meanwhile; None is from now on."""
        subscription = self._cluster.subscribe_agency(self.id, after)
        try:
            async for _, event in subscription:
                yield event
        finally:
            subscription.close()

    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with all its descendants."""
        await self._call("delete_thread", thread_id, done=NotFound)


class ThreadHandle:
    """A thread, wherever it is, awake or not."""

    def __init__(self, cluster: Cluster, address: Address) -> None:
        if not address.thread:
            raise InvalidInput("a thread has an id")
        self._cluster = cluster
        self.address = address

    @property
    def id(self) -> str:
        return self.address.thread

    async def _call(self, method: str, *args: object, done: type[AgencyError] | None = None, **kwargs: object) -> Any:
        return await self._cluster.caller.call(self.address, method, *args, done=done, **kwargs)

    async def metadata(self) -> ThreadMetadata:
        found: ThreadMetadata = await self._cluster.caller.call_agency(self.address.agency, "thread", self.id)
        return found

    async def summary(self) -> ThreadSummary:
        """What it is, and what it was doing a moment ago. It is not woken for that."""
        found: ThreadSummary = await self._cluster.caller.call_agency(self.address.agency, "summary", self.id)
        return found

    async def fork(
        self,
        message: str | Message | Sequence[Message] = (),
        *,
        after_seq: int | None = None,
        before_message: str | None = None,
        thread_id: str | None = None,
        request: RequestContext | None = None,
    ) -> ThreadHandle:
        """A new thread that begins as this one was: after one of its events, before one of its user's messages, or as
        it is now. With a message it goes on at once. This one is not changed, whatever it is doing."""
        messages = () if message == () else checked_messages(message)
        new = thread_id or f"thr_{secrets.token_hex(10)}"  # ours, so that repeating the call makes no second one
        where: dict[str, Any] = {"after_seq": after_seq, "before_message": before_message, "request": request}
        agency = self.address.agency
        await self._cluster.caller.call_agency(agency, "fork_thread", self.id, messages, thread_id=new, **where)
        return ThreadHandle(self._cluster, Address(agency, new))

    async def invoke(
        self,
        message: str | Message | Sequence[Message],
        *,
        idempotency_key: str | None = None,
        limits: Limits | None = None,
        files: Mapping[str, str] | None = None,
        output_schema: Schema | None = None,
        when: When = "next_step",
    ) -> Accepted:
        """Start a run with a message. During a run, the message joins it at its next step, or starts the run after it
        (`next_run`), or interrupts what is being done (`now`). `limits` and `output_schema` are in the place of the
        blueprint's, for a run that this starts."""
        key = _key() if idempotency_key is None else idempotency_key
        given: dict[str, Any] = {"limits": limits, "files": files, "output_schema": output_schema, "when": when}
        accepted: Accepted = await self._call("invoke", message, key=key, **given)
        return accepted

    async def decide(self, decisions: Mapping[str, Decision], *, idempotency_key: str | None = None) -> None:
        """Answer calls that wait for a person, by their ids. Calls that are not named go on waiting.

        With an `idempotency_key`, deciding again changes nothing.
        """
        await self._call("decide", decisions, key=_key() if idempotency_key is None else idempotency_key)

    async def approve(self, *, idempotency_key: str | None = None) -> None:
        """Let every call that waits for a person run."""
        await self._call("approve", key=_key() if idempotency_key is None else idempotency_key)

    async def deny(self, reason: str = "", *, idempotency_key: str | None = None) -> None:
        """Let no call that waits for a person run; the model is told why."""
        await self._call("deny", reason, key=_key() if idempotency_key is None else idempotency_key)

    async def cancel(self) -> None:
        """End the run, with all its children."""
        await self._call("cancel", done=WrongState)

    async def pause(self) -> None:
        """Have the run wait until somebody resumes it; what is being done just now may end."""
        await self._call("pause", done=WrongState)

    async def resume(self) -> None:
        """Let a run go on that was paused by hand."""
        await self._call("resume", done=WrongState)

    async def lift_limits(
        self,
        *,
        turns: int | None = None,
        time_ms: int | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Let a run that has used up a limit go on, under these new ones."""
        lifted = {"turns": turns, "time_ms": time_ms, "tokens": tokens, "cost_usd": cost_usd}
        await self._call("lift_limits", **lifted, done=WrongState)

    async def state(self) -> ThreadState:
        state: ThreadState = await self._call("state")
        return state

    async def files(self) -> tuple[FileInfo, ...]:
        """The agent's files, by path."""
        found: tuple[FileInfo, ...] = await self._call("files")
        return found

    async def read_file(self, path: str) -> bytes:
        content: bytes = await self._call("read_file", path)
        return content

    async def put_files(self, files: Mapping[str, str | bytes]) -> None:
        """Give the agent files, by path, in the place of those it has under these paths."""
        await self._call("put_files", files)

    async def delete_file(self, path: str) -> None:
        """Take a file from the agent."""
        await self._call("delete_file", path, done=NotFound)

    async def run_state(self) -> RunState:
        state: RunState = await self._call("run_state")
        return state

    async def run(self) -> RunEnvelope:
        """The latest run, as it is now."""
        run: RunEnvelope = await self._call("run")
        return run

    async def wait(self, timeout: float | None = None) -> RunEnvelope:
        """Wait until the run has ended or needs a person, at most `timeout` seconds; the run as it is then."""
        if timeout is not None:
            _within("the time to wait", timeout, 0, float("inf"))
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            left = WAIT_PIECE if deadline is None else min(WAIT_PIECE, deadline - loop.time())
            run: RunEnvelope = await self._call("run", wait=max(left, 0.0))
            waits = run.status == "running" or run.meta.pause_reason == "subagent"
            if not waits or left < WAIT_PIECE:
                return run

    async def stored_events(self, after: int = 0, limit: int = 100) -> list[Event]:
        """A page of the events so far."""
        return [Event.model_validate_json(event) for event in await self.stored_events_json(after, limit)]

    async def stored_events_json(self, after: int = 0, limit: int = 100) -> list[str]:
        """The same as JSON, for a caller that only passes them on."""
        found: list[str] = await self._call("events", after, limit)
        return found

    async def events(self, after: int = 0) -> AsyncGenerator[Event, None]:
        """Every event after a seq, then those to come, whatever dies meanwhile."""
        _within("the seq after which events begin", after, 0, float("inf"), whole=True)
        subscription = self._cluster.subscribe(self.address, after)
        try:
            async for _, event in subscription:
                yield Event.model_validate_json(event)
        finally:
            subscription.close()


def _within(what: str, given: object, least: float, most: float, *, whole: bool = False) -> None:
    number = isinstance(given, int if whole else int | float)
    if not (number and least <= given <= most):  # type: ignore[operator]  # it is a number, and not NaN
        raise InvalidInput(f"{what} is a number from {least:g} to {most:g}, not {given!r:.100}")


def _key() -> str:
    """For a call that may have to be repeated because its answer was lost."""
    return f"{OURS}call:{secrets.token_hex(12)}"


async def _described(wanted: Settings, *, start: bool) -> tuple[Handle, Settings]:
    """The directory, and what it was started with."""
    for _ in range(REPLACED_TRIES):
        directory = await asyncio.to_thread(_directory, wanted, start=start)
        try:
            return directory, unwrap(await directory.describe.remote())
        except WrongState:
            ray.kill(directory)
            raise
        except ActorDiedError:  # one that was stopped, and whose name is not free yet
            await asyncio.sleep(0.1)
    raise Unavailable("the directory that was stopped does not go away")


def _directory(wanted: Settings, *, start: bool) -> Handle:
    try:
        return find_directory(wanted.namespace)
    except ValueError:
        if not start:
            raise NotFound(f"nothing runs in namespace {wanted.namespace!r}") from None
        remote: Any = ray.remote(Directory)
        node = ray.get_runtime_context().get_node_id()
        return remote.options(
            name="Directory",
            namespace=wanted.namespace,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=100_000,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=wanted.storage == "shared"),
        ).remote(wanted)
