"""A thread as its clients have it: wherever it is, awake or not.

Most operations are one line, `remote(...)`, which takes signature and description from the operation itself. Written
out is only what happens in the client's process: input is checked, ids and keys are made, long waits are cut in pieces.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, overload

from typing_extensions import Unpack

from actors.address import Address
from actors.agency.calls import AgencyCalls
from actors.caller import NO_ANSWER
from actors.cluster.connection import Connection, check_within
from actors.host.system_agent import SystemAgent
from actors.operations import new_key, remote
from agency.api.tenancy import ThreadSummary
from agency.define.options import RunOptionFields, as_options
from agency.define.output import OutputType
from agency.errors import AgencyError, InvalidInput, NotFound, Unavailable, WrongState
from agency.events import Event
from agency.messages import Message
from agency.metadata import RequestContext, ThreadMetadata
from agency.store.draft import When
from agency.thread.invocation import checked_invocation
from agency.thread.results import AnyOutput, checked_output, output_of
from agency.thread.thread import Thread
from agency.thread.views import Accepted, RunEnvelope
from agency.turn.state import Limits

WAIT_PIECE = 20.0
"""A long wait is made of calls of at most so many seconds, so that the death of a host is noticed in time."""
ANSWER_SECONDS = 5.0
"""How much longer than it was asked to wait a host may take to answer."""
AGAIN_SECONDS = 0.2


class ThreadHandle:
    def __init__(self, connection: Connection, address: Address, created: ThreadMetadata | None = None) -> None:
        if not address.thread:
            raise InvalidInput("give the thread's id")
        self._connection = connection
        self.address = address
        self.created = created
        """What the agency answered, if this handle has made the thread: its maker need not ask for its metadata."""
        self._agency = AgencyCalls(connection.caller, address.agency)

    @property
    def id(self) -> str:
        return self.address.thread

    async def _call(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], done: type[AgencyError] | None
    ) -> Any:
        return await self._connection.caller.call(self.address, name, args, kwargs, done)

    decide = remote(Thread.decide, keyed=True)
    approve = remote(Thread.approve, keyed=True)
    deny = remote(Thread.deny, keyed=True)
    settle = remote(Thread.settle)
    cancel = remote(Thread.cancel, done=WrongState)
    pause = remote(Thread.pause, done=WrongState)
    resume = remote(Thread.resume, done=WrongState)
    lift_limits = remote(Thread.lift_limits, done=WrongState)
    retry = remote(Thread.retry, keyed=True)
    edit_state = remote(Thread.edit_state, done=WrongState)
    state = remote(Thread.state)
    run_state = remote(Thread.run_state)
    tool_call = remote(Thread.tool_call)
    traces = remote(Thread.traces)
    model_calls = remote(Thread.model_calls)
    model_call = remote(Thread.model_call)
    files = remote(Thread.files)
    read_file = remote(Thread.read_file)
    put_files = remote(Thread.put_files)
    delete_file = remote(Thread.delete_file, done=NotFound)
    stored_events_json = remote(SystemAgent.events)
    _accept = remote(Thread.accept)
    _run = remote(SystemAgent.run)

    # What its agency knows of it. It is not woken for that.

    async def metadata(self) -> ThreadMetadata:
        """What it was made as. `NotFound` if it does not exist (any more)."""
        return await self._agency.thread(self.id)

    async def info(self) -> ThreadSummary:
        """What it is, and what it was doing a moment ago."""
        return await self._agency.summary(self.id)

    async def fork(
        self,
        message: str | Message | Sequence[Message] = (),
        *,
        after_seq: int | None = None,
        before_message: str | None = None,
        thread_id: str | None = None,
        request: RequestContext | None = None,
        **options: Unpack[RunOptionFields],
    ) -> ThreadHandle:
        """A new thread that begins as this one was: after one of its events, before one of its user's messages, or as
        it is now. With a message it goes on at once, with these `options`. This one is not changed, whatever it is
        doing."""
        made = await self._agency.fork_thread(
            self.id,
            self._connection.checked(message),
            after_seq=after_seq,
            before_message=before_message,
            thread_id=thread_id or new_thread_id(),
            request=request,
            options=as_options(options),
        )
        return ThreadHandle(self._connection, Address(made.agency_id, made.id), made)

    # Messages and runs.

    async def invoke(
        self,
        message: str | Message | Sequence[Message] = (),
        *,
        idempotency_key: str | None = None,
        limits: Limits | None = None,
        files: Mapping[str, str] | None = None,
        output_schema: OutputType | None = None,
        when: When = "next_step",
        **options: Unpack[RunOptionFields],
    ) -> Accepted:
        """Start a run with a message. During a run, the message joins it at its next turn, or starts the run after it
        (`next_run`), or interrupts what is being done (`now`). Without one, a run starts with the conversation as it
        is, or goes on. `limits`, `output_schema` and the `options` (`RunOptions`) are in the place of the blueprint's,
        for a run that this starts."""
        invocation = checked_invocation(
            message,
            idempotency_key=new_key() if idempotency_key is None else idempotency_key,
            limits=limits,
            files=files,
            output_schema=output_schema,
            when=when,
            **options,
            longest=self._connection.settings.message_chars,
        )
        return await self._accept(invocation)

    async def run(self) -> RunEnvelope:
        """The latest run, as it is now."""
        return await self._run()

    @overload
    async def wait(self, timeout: float | None = None) -> RunEnvelope: ...
    @overload
    async def wait(self, timeout: float | None = None, *, output: type[AnyOutput]) -> AnyOutput: ...
    async def wait(
        self, timeout: float | None = None, *, output: type[AnyOutput] | None = None
    ) -> RunEnvelope | AnyOutput:
        """Wait until the run has ended or needs a person, at most `timeout` seconds; the run as it is then. It also
        needs one if it waits for a descendant that does: `meta.waiting_for` names that. If the thread cannot be woken
        in this time, it is the run as its file has it.

        With `output`, a pydantic model, the result as an instance of it; `RunFailed` or `RunUnfinished` if there is
        none."""
        wanted = None if output is None else checked_output(output)
        run = await self._wait(timeout)
        return run if wanted is None else output_of(run, wanted)

    async def _wait(self, timeout: float | None) -> RunEnvelope:
        if timeout is not None:
            check_within("the time to wait", timeout, 0, float("inf"))
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            left = WAIT_PIECE if deadline is None else max(0.0, min(WAIT_PIECE, deadline - loop.time()))
            try:
                async with asyncio.timeout(left + ANSWER_SECONDS):
                    run = await self._run(wait=left)
            except (TimeoutError, Unavailable):
                # No host has it awake just now, as after a storm of deaths, or its host is silent.
                if deadline is None:
                    raise Unavailable(f"{self.address} does not answer").telling(NO_ANSWER) from None
                if loop.time() >= deadline:
                    return await self._agency.stored_run(self.id)
                await asyncio.sleep(min(AGAIN_SECONDS, deadline - loop.time()))
                continue
            elsewhere = run.meta.pause_reason in ("subagent", "outside") and run.meta.waiting_for is None
            waits = run.status == "running" or elsewhere
            if not waits or left < WAIT_PIECE:
                return run

    # Events.

    async def stored_events(self, after: int = 0, limit: int = 100) -> list[Event]:
        """A page of the events so far."""
        return [Event.model_validate_json(event) for event in await self.stored_events_json(after, limit)]

    async def events(self, after: int = 0) -> AsyncGenerator[Event, None]:
        """Every event after a seq, then those to come, whatever dies meanwhile."""
        check_within("the seq after which events begin", after, 0, float("inf"), whole=True)
        subscription = self._connection.watcher.subscribe(self.address, after)
        try:
            async for _, event in subscription:
                yield Event.model_validate_json(event)
        finally:
            subscription.close()


def new_thread_id() -> str:
    """Made by the caller, so that repeating a call whose answer was lost makes no second thread."""
    return f"thr_{secrets.token_hex(10)}"
