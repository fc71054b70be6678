"""The client for asyncio. `operations/` has its methods; `sync.py` is the same without `await`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from types import TracebackType
from typing import Any, Literal, Self, overload

import httpx

from agency.api.tenancy import AgencyInfo, ThreadSummary
from agency.client.connection import FOLLOWING, LIMITS, Target, answer_of, no_answer, within
from agency.client.exchange import PATIENCE_SECONDS, Answer, Exchange, NoAnswer
from agency.client.following import Broken, Following
from agency.client.items import AsyncItems
from agency.client.operation import Resource
from agency.client.operations.agencies import AgencyOperations
from agency.client.operations.definitions import DefinitionOperations
from agency.client.operations.files import FileOperations
from agency.client.operations.gateway import GatewayOperations
from agency.client.operations.inbox import InboxOperations
from agency.client.operations.schedules import ScheduleOperations
from agency.client.operations.shelves import ShelfOperations
from agency.client.operations.threads import ThreadOperations
from agency.client.request import (
    AnyEvent,
    Cursor,
    EventFeed,
    Listing,
    Request,
    Value,
    agency_path,
    key_of_name,
    name_of_agency,
    thread_path,
)
from agency.client.waiting import Waiting
from agency.errors import AgencyError
from agency.metadata import ThreadMetadata
from agency.thread.results import AnyOutput, checked_output, output_of
from agency.thread.views import RunEnvelope


class AsyncTransport:
    """The connections to a gateway. It moves bytes and sleeps; `Exchange` and `Following` decide what they mean."""

    def __init__(self, target: Target, patience: float, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.url = target.url
        self._patience = patience
        self._http = httpx.AsyncClient(
            base_url=target.url,
            headers=target.headers,
            limits=LIMITS,
            trust_env=target.trust_env,
            transport=transport,
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(self, request: Request[Value]) -> Value:
        """Send a request, again for as long as that may help; its answer."""
        exchange = Exchange(request, self.url, self._patience)
        while (delay := exchange.take(await self._try(request))) is not None:  # noqa: ASYNC110  # no other task changes it
            await asyncio.sleep(delay)
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

    def list(self, listing: Listing[Value]) -> AsyncItems[Value]:
        return AsyncItems(listing.page(listing.begin).path, lambda: self._items(listing))

    async def _items(self, listing: Listing[Value]) -> AsyncIterator[Value]:
        cursor: Cursor | None = listing.begin
        while cursor is not None:
            page = await self.ask(listing.page(cursor))
            for each in page.items:
                yield each
            cursor = page.next

    async def follow(self, feed: EventFeed[AnyEvent]) -> AsyncGenerator[AnyEvent, None]:
        """Events, over as many connections as it takes. Closing the generator closes the connection."""
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


class AsyncHandle(Resource):
    """A resource with a transport. Operations are performed on it."""

    def __init__(self, transport: AsyncTransport, path: str) -> None:
        super().__init__(path)
        self._transport = transport

    async def _made_thread(self, request: Request[ThreadMetadata]) -> AsyncThread:
        made = await self._transport.ask(request)
        return AsyncThread(self._transport, made.agency_id, made.id)

    async def _made_agency(self, request: Request[AgencyInfo]) -> AsyncAgency:
        made = await self._transport.ask(request)
        return AsyncAgency(self._transport, made.id)

    def _found_threads(self, listing: Listing[ThreadSummary]) -> AsyncItems[AsyncFoundThread]:
        return self._transport.list(listing).each(lambda found: AsyncFoundThread(self._transport, found))

    def _found_agencies(self, listing: Listing[AgencyInfo]) -> AsyncItems[AsyncFoundAgency]:
        return self._transport.list(listing).each(lambda found: AsyncFoundAgency(self._transport, found))


class AsyncThread(AsyncHandle, ThreadOperations, FileOperations):
    """A thread of a gateway."""

    def __init__(self, transport: AsyncTransport, agency_id: str, thread_id: str) -> None:
        super().__init__(transport, thread_path(agency_id, thread_id))
        self.agency_id = agency_id
        self.id = thread_id

    def __repr__(self) -> str:
        return f"<AsyncThread {self.agency_id}/{self.id}>"

    @overload
    async def wait(self, timeout: float | None = None) -> RunEnvelope: ...
    @overload
    async def wait(self, timeout: float | None = None, *, output: type[AnyOutput]) -> AnyOutput: ...
    async def wait(
        self, timeout: float | None = None, *, output: type[AnyOutput] | None = None
    ) -> RunEnvelope | AnyOutput:
        """Wait until the run has ended or needs a person, at most `timeout` seconds; the run as it is then.

        With `output`, a pydantic model, the result as an instance of it; `RunFailed` or `RunUnfinished` if there is
        none."""
        wanted = None if output is None else checked_output(output)
        waiting = Waiting(timeout)
        while True:
            run = await self._transport.ask(self._run_after(waiting.piece))
            if waiting.over(run):
                return run if wanted is None else output_of(run, wanted)


class AsyncAgency(
    AsyncHandle, AgencyOperations, DefinitionOperations, InboxOperations, ScheduleOperations, ShelfOperations
):
    """An agency of a gateway."""

    def __init__(self, transport: AsyncTransport, agency_id: str) -> None:
        super().__init__(transport, agency_path(agency_id))
        self.id = agency_id

    def __repr__(self) -> str:
        return f"<AsyncAgency {self.id}>"

    def thread(self, thread_id: str) -> AsyncThread:
        """A thread by its id. This asks nothing: a thread that does not exist raises `NotFound` when you use it."""
        return AsyncThread(self._transport, self.id, thread_id)


class AsyncFoundThread(AsyncThread):
    """A thread that a list has: what can be done with it, and what the list says of it."""

    def __init__(self, transport: AsyncTransport, summary: ThreadSummary) -> None:
        super().__init__(transport, summary.agency_id, summary.id)
        self.summary = summary

    def __repr__(self) -> str:
        return f"<AsyncThread {self.agency_id}/{self.id}: {self.summary.agent_type}, {self.summary.status}>"


class AsyncFoundAgency(AsyncAgency):
    """An agency that a list has: what can be done with it, and what the list says of it."""

    def __init__(self, transport: AsyncTransport, summary: AgencyInfo) -> None:
        super().__init__(transport, summary.id)
        self.summary = summary

    def __repr__(self) -> str:
        return f"<AsyncAgency {self.id}: {self.summary.name}>"


class AsyncClient(AsyncHandle, GatewayOperations):
    """A gateway.

        async with AsyncClient("http://127.0.0.1:8000", secret="…") as client:
            agency = await client.create_agency("bakery")
            thread = await agency.create_thread("support", "Where is order 7?")
            async for event in thread.events():
                print(event.seq, event.type)

    Everything else is as in `Client`.
    """

    def __init__(
        self, url: str | None = None, *, secret: str | None = None, patience: float = PATIENCE_SECONDS
    ) -> None:
        super().__init__(AsyncTransport(Target.of(url, secret), patience), path="")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def url(self) -> str:
        return self._transport.url

    async def close(self) -> None:
        """Close the connections. `async with` does so by itself."""
        await self._transport.close()

    async def ready(self) -> bool:
        """Whether the gateway answers and a thread could run now."""
        try:
            return (await self._transport.ask(self._health())).status == "ready"
        except AgencyError:
            return False

    @overload
    def agency(self, agency_id: str) -> AsyncAgency: ...
    @overload
    def agency(self, agency_id: str, *, create: Literal[True]) -> Coroutine[Any, Any, AsyncAgency]: ...
    def agency(self, agency_id: str, *, create: bool = False) -> AsyncAgency | Coroutine[Any, Any, AsyncAgency]:
        """An agency by its id. This asks nothing: an agency that does not exist raises `NotFound` when you use it. With
        `create`, the agency of this id or name, which is created if there is none; await that."""
        return self._found_or_created(name_of_agency(agency_id)) if create else AsyncAgency(self._transport, agency_id)

    async def _found_or_created(self, name: str) -> AsyncAgency:
        async for each in self.agencies():
            if name in (each.id, each.summary.name):
                return each
        made = await self.create_agency(name, idempotency_key=key_of_name(name))
        if (await made.info()).name == name:
            return made
        return await self.create_agency(name)  # the one that was made under this name has another one by now
