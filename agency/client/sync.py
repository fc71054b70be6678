"""The blocking client: each call returns when its answer is there. `operations/` has its methods.

This module and `asynchronous.py` differ only in what does I/O: the transport, and the two methods that make several
requests.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Self, overload

import httpx

from agency.api.tenancy import AgencyInfo, ThreadSummary
from agency.client.connection import FOLLOWING, LIMITS, Target, answer_of, no_answer, within
from agency.client.exchange import PATIENCE_SECONDS, Answer, Exchange, NoAnswer
from agency.client.following import Broken, Following
from agency.client.items import Items
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


class SyncTransport:
    """The connections to a gateway. It moves bytes and sleeps; `Exchange` and `Following` decide what they mean."""

    def __init__(self, target: Target, patience: float) -> None:
        self.url = target.url
        self._patience = patience
        self._http = httpx.Client(
            base_url=target.url, headers=target.headers, limits=LIMITS, trust_env=target.trust_env
        )

    def close(self) -> None:
        self._http.close()

    def ask(self, request: Request[Value]) -> Value:
        """Send a request, again for as long as that may help; its answer."""
        exchange = Exchange(request, self.url, self._patience)
        while (delay := exchange.take(self._try(request))) is not None:
            time.sleep(delay)
        return exchange.value

    def _try(self, request: Request[Value]) -> Answer | NoAnswer:
        try:
            return answer_of(
                self._http.request(
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

    def list(self, listing: Listing[Value]) -> Items[Value]:
        return Items(listing.page(listing.begin).path, lambda: self._items(listing))

    def _items(self, listing: Listing[Value]) -> Iterator[Value]:
        cursor: Cursor | None = listing.begin
        while cursor is not None:
            page = self.ask(listing.page(cursor))
            yield from page.items
            cursor = page.next

    def follow(self, feed: EventFeed[AnyEvent]) -> Generator[AnyEvent, None, None]:
        """Events, over as many connections as it takes. Closing the generator closes the connection."""
        following = Following(feed, self.url)
        while True:
            why = "the connection was closed"
            try:
                with self._http.stream(
                    "GET", feed.path, params=following.query, headers=following.headers, timeout=FOLLOWING
                ) as response:
                    if response.status_code != 200:
                        response.read()
                    following.opened(answer_of(response))
                    for piece in response.iter_bytes():
                        yield from following.feed(piece)
            except Broken as error:
                why = str(error)
            except httpx.RequestError as error:
                why = no_answer(error).why
            time.sleep(following.broken(why))


class SyncHandle(Resource):
    """A resource with a transport. Operations are performed on it."""

    def __init__(self, transport: SyncTransport, path: str) -> None:
        super().__init__(path)
        self._transport = transport

    def _made_thread(self, request: Request[ThreadMetadata]) -> Thread:
        made = self._transport.ask(request)
        return Thread(self._transport, made.agency_id, made.id)

    def _made_agency(self, request: Request[AgencyInfo]) -> Agency:
        made = self._transport.ask(request)
        return Agency(self._transport, made.id)

    def _found_threads(self, listing: Listing[ThreadSummary]) -> Items[FoundThread]:
        return self._transport.list(listing).each(lambda found: FoundThread(self._transport, found))

    def _found_agencies(self, listing: Listing[AgencyInfo]) -> Items[FoundAgency]:
        return self._transport.list(listing).each(lambda found: FoundAgency(self._transport, found))


class Thread(SyncHandle, ThreadOperations, FileOperations):
    """A thread of a gateway."""

    def __init__(self, transport: SyncTransport, agency_id: str, thread_id: str) -> None:
        super().__init__(transport, thread_path(agency_id, thread_id))
        self.agency_id = agency_id
        self.id = thread_id

    def __repr__(self) -> str:
        return f"<Thread {self.agency_id}/{self.id}>"

    @overload
    def wait(self, timeout: float | None = None) -> RunEnvelope: ...
    @overload
    def wait(self, timeout: float | None = None, *, output: type[AnyOutput]) -> AnyOutput: ...
    def wait(self, timeout: float | None = None, *, output: type[AnyOutput] | None = None) -> RunEnvelope | AnyOutput:
        """Wait until the run has ended or needs a person, at most `timeout` seconds; the run as it is then.

        With `output`, a pydantic model, the result as an instance of it; `RunFailed` or `RunUnfinished` if there is
        none."""
        wanted = None if output is None else checked_output(output)
        waiting = Waiting(timeout)
        while True:
            run = self._transport.ask(self._run_after(waiting.piece))
            if waiting.over(run):
                return run if wanted is None else output_of(run, wanted)


class Agency(SyncHandle, AgencyOperations, DefinitionOperations, InboxOperations, ScheduleOperations, ShelfOperations):
    """An agency of a gateway."""

    def __init__(self, transport: SyncTransport, agency_id: str) -> None:
        super().__init__(transport, agency_path(agency_id))
        self.id = agency_id

    def __repr__(self) -> str:
        return f"<Agency {self.id}>"

    def thread(self, thread_id: str) -> Thread:
        """A thread by its id. This asks nothing: a thread that does not exist raises `NotFound` when you use it."""
        return Thread(self._transport, self.id, thread_id)


class FoundThread(Thread):
    """A thread that a list has: what can be done with it, and what the list says of it."""

    def __init__(self, transport: SyncTransport, summary: ThreadSummary) -> None:
        super().__init__(transport, summary.agency_id, summary.id)
        self.summary = summary

    def __repr__(self) -> str:
        return f"<Thread {self.agency_id}/{self.id}: {self.summary.agent_type}, {self.summary.status}>"


class FoundAgency(Agency):
    """An agency that a list has: what can be done with it, and what the list says of it."""

    def __init__(self, transport: SyncTransport, summary: AgencyInfo) -> None:
        super().__init__(transport, summary.id)
        self.summary = summary

    def __repr__(self) -> str:
        return f"<Agency {self.id}: {self.summary.name}>"


class Client(SyncHandle, GatewayOperations):
    """A gateway.

        with Client("http://127.0.0.1:8000", secret="…") as client:
            agency = client.create_agency("bakery")
            thread = agency.create_thread("support", "Where is order 7?")
            for event in thread.events():
                print(event.seq, event.type)

    Without an address it uses AGENCY_URL, and without a secret AGENCY_SECRET. You can pass an agency's key as the
    secret. A request without an answer is tried again for `patience` seconds, if that can do no harm. Errors are
    those of `agency.errors`.
    """

    def __init__(
        self, url: str | None = None, *, secret: str | None = None, patience: float = PATIENCE_SECONDS
    ) -> None:
        super().__init__(SyncTransport(Target.of(url, secret), patience), path="")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        return self._transport.url

    def close(self) -> None:
        """Close the connections. `with` does so by itself."""
        self._transport.close()

    def ready(self) -> bool:
        """Whether the gateway answers and a thread could run now."""
        try:
            return self._transport.ask(self._health()).status == "ready"
        except AgencyError:
            return False

    def agency(self, agency_id: str, *, create: bool = False) -> Agency:
        """An agency by its id. This asks nothing: an agency that does not exist raises `NotFound` when you use it. With
        `create`, the agency of this id or name, which is created if there is none."""
        return self._found_or_created(name_of_agency(agency_id)) if create else Agency(self._transport, agency_id)

    def _found_or_created(self, name: str) -> Agency:
        for each in self.agencies():
            if name in (each.id, each.summary.name):
                return each
        made = self.create_agency(name, idempotency_key=key_of_name(name))
        if made.info().name == name:
            return made
        return self.create_agency(name)  # the one that was made under this name has another one by now
