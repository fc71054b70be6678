"""Operations: how one description becomes a method of both clients.

An operation is written once, as a method of a class in `operations/` that makes a request and does no I/O. A decorator
says what becomes of the request: `asks` gives its answer, `lists` all items of a list (of
threads and agencies as handles), `follows` live events, and
`makes_thread` and `makes_agency` a handle of what was created. The handles of both clients inherit these classes:

    thread.pause()          # of a `Thread`: sends the request and returns its answer
    await thread.pause()    # of an `AsyncThread`: the same, awaited

So a new operation needs one method, and its parameters, types and docstring are the same for both clients.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from agency.api.tenancy import AgencyInfo, ThreadSummary
from agency.client.items import AsyncItems, Items
from agency.client.request import AnyEvent, EventFeed, Listing, Request, Value
from agency.metadata import ThreadMetadata

if TYPE_CHECKING:
    from agency.client.asynchronous import AsyncAgency, AsyncFoundAgency, AsyncFoundThread, AsyncHandle, AsyncThread
    from agency.client.sync import Agency, FoundAgency, FoundThread, SyncHandle, Thread

P = ParamSpec("P")
Owner = TypeVar("Owner", bound="Resource")
Made = TypeVar("Made")
SyncResult = TypeVar("SyncResult")
AsyncResult = TypeVar("AsyncResult")


class Resource:
    """Something at a gateway that has a path: the gateway itself, an agency, a thread."""

    def __init__(self, path: str) -> None:
        self._path = path


class Operation(Generic[P, SyncResult, AsyncResult]):
    """A method that makes a request and performs it on the handle that it is called on.

    Both kinds of handles can `perform` the same things; one returns the result, the other something to await or to
    iterate over. The handle decides that at run time, and the overloads of `__get__` tell it to type checkers.
    """

    def __init__(
        self,
        make: Callable[Concatenate[Owner, P], Made],
        perform: Callable[[SyncHandle | AsyncHandle, Made], object],
    ) -> None:
        def operation(handle: Any, /, *args: P.args, **kwargs: P.kwargs) -> object:
            return perform(handle, make(handle, *args, **kwargs))

        # The name, the docstring and the parameters of the operation, for `help` and notebooks. Its return type is left
        # out: `make` returns a request, and what the caller gets depends on the handle.
        operation.__name__, operation.__qualname__ = make.__name__, make.__qualname__
        operation.__module__, operation.__doc__ = make.__module__, make.__doc__
        signature = inspect.signature(make).replace(return_annotation=inspect.Signature.empty)
        operation.__signature__ = signature  # type: ignore[attr-defined]  # functions may have one
        self._operation = operation
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, handle: SyncHandle, owner: type) -> Callable[P, SyncResult]: ...
    @overload
    def __get__(self, handle: AsyncHandle, owner: type) -> Callable[P, AsyncResult]: ...
    @overload
    def __get__(self, handle: None, owner: type[SyncHandle]) -> Callable[Concatenate[SyncHandle, P], SyncResult]: ...
    @overload
    def __get__(self, handle: None, owner: type[AsyncHandle]) -> Callable[Concatenate[AsyncHandle, P], AsyncResult]: ...
    def __get__(self, handle: Any, owner: type) -> Any:
        return self._operation.__get__(handle, owner)


def asks(make: Callable[Concatenate[Owner, P], Request[Value]]) -> Operation[P, Value, Coroutine[Any, Any, Value]]:
    """An operation that gives the answer to its request."""
    return Operation(make, lambda handle, request: handle._transport.ask(request))


def lists(make: Callable[Concatenate[Owner, P], Listing[Value]]) -> Operation[P, Items[Value], AsyncItems[Value]]:
    """An operation that gives all items of a list; it asks for a page when the items before it are used up."""
    return Operation(make, lambda handle, listing: handle._transport.list(listing))


def lists_threads(
    make: Callable[Concatenate[Owner, P], Listing[ThreadSummary]],
) -> Operation[P, Items[FoundThread], AsyncItems[AsyncFoundThread]]:
    """An operation that lists threads, as handles with what the list says of them."""
    return Operation(make, lambda handle, listing: handle._found_threads(listing))


def lists_agencies(
    make: Callable[Concatenate[Owner, P], Listing[AgencyInfo]],
) -> Operation[P, Items[FoundAgency], AsyncItems[AsyncFoundAgency]]:
    """An operation that lists agencies, as handles with what the list says of them."""
    return Operation(make, lambda handle, listing: handle._found_agencies(listing))


def follows(
    make: Callable[Concatenate[Owner, P], EventFeed[AnyEvent]],
) -> Operation[P, Generator[AnyEvent, None, None], AsyncGenerator[AnyEvent, None]]:
    """An operation that gives events without end. Closing the generator closes the connection."""
    return Operation(make, lambda handle, feed: handle._transport.follow(feed))


def makes_thread(
    make: Callable[Concatenate[Owner, P], Request[ThreadMetadata]],
) -> Operation[P, Thread, Coroutine[Any, Any, AsyncThread]]:
    """An operation that gives a handle of the thread that it creates."""
    return Operation(make, lambda handle, request: handle._made_thread(request))


def makes_agency(
    make: Callable[Concatenate[Owner, P], Request[AgencyInfo]],
) -> Operation[P, Agency, Coroutine[Any, Any, AsyncAgency]]:
    """An operation that gives a handle of the agency that it creates."""
    return Operation(make, lambda handle, request: handle._made_agency(request))
