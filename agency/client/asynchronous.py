"""The client for asyncio, like `sync.py`. What can be asked is in `requests.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self

import httpx

from agency.client import requests
from agency.client.connection import FOLLOWING, LIMITS, Target, answer_of, no_answer, within
from agency.client.exchange import PATIENCE_SECONDS, Answer, Exchange, NoAnswer
from agency.client.face import like
from agency.client.following import Broken, Following
from agency.client.request import AnyEvent, Cursor, Feed, Listing, Request, Value
from agency.client.waiting import Waiting
from agency.errors import AgencyError
from agency.metadata import ThreadMetadata
from agency.thread.views import RunEnvelope

P = ParamSpec("P")


class Line:
    """The connections to a gateway."""

    def __init__(self, target: Target, patience: float) -> None:
        self.url = target.url
        self._patience = patience
        self._http = httpx.AsyncClient(
            base_url=target.url, headers=target.headers, limits=LIMITS, trust_env=target.trust_env
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(self, request: Request[Value]) -> Value:
        """The answer to a request, which is made again for as long as that may help."""
        exchange = Exchange(request, self.url, self._patience)
        while (pause := exchange.take(await self._try(request))) is not None:  # noqa: ASYNC110  # it is no waiting for another task
            await asyncio.sleep(pause)
        return exchange.value

    async def _try(self, request: Request[Value]) -> Answer | NoAnswer:
        try:
            return answer_of(
                await self._http.request(
                    request.method,
                    request.path,
                    params=request.params,
                    content=request.body,
                    headers=request.headers,
                    timeout=within(request.seconds),
                )
            )
        except httpx.RequestError as error:
            return no_answer(error)

    async def list(self, listing: Listing[Value]) -> AsyncIterator[Value]:
        cursor: Cursor | None = listing.begin
        while cursor is not None:
            page = await self.ask(listing.page(cursor))
            for each in page.items:
                yield each
            cursor = page.next

    async def follow(self, feed: Feed[AnyEvent]) -> AsyncGenerator[AnyEvent, None]:
        """Events, over as many connections as it takes. Closing it closes the connection."""
        following = Following(feed, self.url)
        while True:
            why = "the connection was closed"
            try:
                async with self._http.stream(
                    "GET", feed.path, params=following.query, headers=following.headers, timeout=FOLLOWING
                ) as response:
                    if response.status_code != 200:
                        await response.aread()
                    following.opened(answer_of(response))
                    async for piece in response.aiter_bytes():
                        for event in following.feed(piece):
                            yield event
            except Broken as error:
                why = str(error)
            except httpx.RequestError as error:
                why = no_answer(error).why
            await asyncio.sleep(following.broken(why))


class Handle:
    """Something of a gateway, by its path."""

    def __init__(self, line: Line, at: str) -> None:
        self._line = line
        self._at = at


# Methods, from what makes their requests.


def _asks(
    make: Callable[Concatenate[str, P], Request[Value]],
) -> Callable[Concatenate[Handle, P], Coroutine[Any, Any, Value]]:
    @like(make)
    async def ask(self: Handle, /, *args: P.args, **kwargs: P.kwargs) -> Value:
        return await self._line.ask(make(self._at, *args, **kwargs))

    return ask


def _lists(
    make: Callable[Concatenate[str, P], Listing[Value]],
) -> Callable[Concatenate[Handle, P], AsyncIterator[Value]]:
    @like(make)
    def listed(self: Handle, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[Value]:
        return self._line.list(make(self._at, *args, **kwargs))

    return listed


def _follows(
    make: Callable[Concatenate[str, P], Feed[AnyEvent]],
) -> Callable[Concatenate[Handle, P], AsyncGenerator[AnyEvent, None]]:
    @like(make)
    def follow(self: Handle, /, *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[AnyEvent, None]:
        return self._line.follow(make(self._at, *args, **kwargs))

    return follow


def _makes_thread(
    make: Callable[Concatenate[str, P], Request[ThreadMetadata]],
) -> Callable[Concatenate[Handle, P], Coroutine[Any, Any, AsyncThread]]:
    @like(make)
    async def made(self: Handle, /, *args: P.args, **kwargs: P.kwargs) -> AsyncThread:
        thread = await self._line.ask(make(self._at, *args, **kwargs))
        return AsyncThread(self._line, thread.agency_id, thread.id)

    return made


class AsyncThread(Handle):
    """A thread of a gateway."""

    def __init__(self, line: Line, agency_id: str, thread_id: str) -> None:
        super().__init__(line, requests.thread(agency_id, thread_id))
        self.agency_id = agency_id
        self.id = thread_id

    info = _asks(requests.thread_info)
    fork = _makes_thread(requests.fork)
    invoke = _asks(requests.invoke)
    events = _follows(requests.events)
    stored_events = _asks(requests.stored_events)
    run = _asks(requests.run)
    state = _asks(requests.state)
    files = _asks(requests.files)
    read_file = _asks(requests.read_file)
    put_file = _asks(requests.put_file)
    delete_file = _asks(requests.delete_file)
    approve = _asks(requests.approve)
    deny = _asks(requests.deny)
    decide = _asks(requests.decide)
    cancel = _asks(requests.cancel)
    pause = _asks(requests.pause)
    resume = _asks(requests.resume)
    lift_limits = _asks(requests.lift_limits)
    delete = _asks(requests.delete_thread)

    async def wait(self, timeout: float | None = None) -> RunEnvelope:
        """Wait until the run has ended or needs a person, at most `timeout` seconds; the run as it is then."""
        waiting = Waiting(timeout)
        while True:
            run = await self._line.ask(requests.run_after(self._at, waiting.piece))
            if waiting.over(run):
                return run


class AsyncAgency(Handle):
    """An agency of a gateway."""

    def __init__(self, line: Line, agency_id: str) -> None:
        super().__init__(line, requests.agency(agency_id))
        self.id = agency_id

    info = _asks(requests.agency_info)
    rename = _asks(requests.rename_agency)
    delete = _asks(requests.delete_agency)
    create_thread = _makes_thread(requests.create_thread)
    threads = _lists(requests.threads)
    approvals = _lists(requests.approvals)
    answer = _asks(requests.answer)
    policy = _asks(requests.policy)
    set_policy = _asks(requests.set_policy)
    events = _follows(requests.agency_events)
    blueprints = _lists(requests.blueprints)
    put_blueprint = _asks(requests.put_blueprint)
    delete_blueprint = _asks(requests.delete_blueprint)
    usage = _asks(requests.usage)
    set_budget = _asks(requests.set_budget)
    providers = _lists(requests.providers)
    put_provider = _asks(requests.put_provider)
    delete_provider = _asks(requests.delete_provider)
    schedules = _lists(requests.schedules)
    schedule = _asks(requests.schedule_info)
    create_schedule = _asks(requests.create_schedule)
    change_schedule = _asks(requests.change_schedule)
    pause_schedule = _asks(requests.pause_schedule)
    resume_schedule = _asks(requests.resume_schedule)
    run_schedule = _asks(requests.run_schedule)
    schedule_runs = _lists(requests.schedule_runs)
    delete_schedule = _asks(requests.delete_schedule)
    keys = _lists(requests.keys)
    create_key = _asks(requests.create_key)
    revoke_key = _asks(requests.revoke_key)

    def thread(self, thread_id: str) -> AsyncThread:
        """A thread by its id; that there is none shows when it is used."""
        return AsyncThread(self._line, self.id, thread_id)


class AsyncClient(Handle):
    """A gateway.

        async with AsyncClient("http://127.0.0.1:8000", secret="…") as client:
            agency = await client.create_agency("bakery")
            thread = await agency.create_thread("support", "Where is order 7?")
            async for event in thread.events():
                print(event.seq, event.type)

    It is `Client` in everything else.
    """

    def __init__(
        self, url: str | None = None, *, secret: str | None = None, patience: float = PATIENCE_SECONDS
    ) -> None:
        super().__init__(Line(Target.of(url, secret), patience), at="")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def url(self) -> str:
        return self._line.url

    async def close(self) -> None:
        await self._line.close()

    async def ready(self) -> bool:
        """Whether a thread could run now."""
        try:
            return (await self._line.ask(requests.health(self._at))).status == "ready"
        except AgencyError:
            return False

    agencies = _lists(requests.agencies)

    async def create_agency(self, name: str, *, idempotency_key: str | None = None) -> AsyncAgency:
        made = await self._line.ask(requests.create_agency(self._at, name, idempotency_key=idempotency_key))
        return AsyncAgency(self._line, made.id)

    def agency(self, agency_id: str) -> AsyncAgency:
        """An agency by its id; that there is none shows when it is used."""
        return AsyncAgency(self._line, agency_id)
