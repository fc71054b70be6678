"""Operations: the methods of threads and agencies that other processes may call, each described once.

A method becomes an operation by `@operation` where it is defined, or by being named in a table (`operations`) if it
belongs to the library. That is its only description: the host and the directory dispatch calls by name through these
tables, arguments from outside are checked against the method's type hints, and a client's handle declares the same
method with `remote`, which takes its signature and docstring from it:

    pause = remote(Thread.pause, done=WrongState)

A call is made at least once (see `caller`), so an operation that changes something must be harmless when repeated: by
nature, by an idempotency key (`keyed`), or because the refusal of the repetition means that it is done (`done`).
"""

from __future__ import annotations

import functools
import inspect
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Annotated, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from pydantic import ConfigDict, Field, ValidationError, validate_call

from agency.errors import AgencyError, InvalidInput
from agency.events import OURS
from agency.wire import explain

Seq = Annotated[int, Field(ge=0, lt=2**63)]
"""After which to begin; 0 is at the beginning."""

Owner = TypeVar("Owner")
Params = ParamSpec("Params")
Result = TypeVar("Result")
Method = Callable[Concatenate[Owner, Params], Awaitable[Result]]
Operation = Callable[..., Coroutine[Any, Any, Any]]
"""A method with checked arguments, as it is found in a table."""

_OPERATION = "__operation__"
_READS_INDEX = "__reads_index__"
_URGENT = "__urgent__"


def checked(method: Callable[..., Any]) -> Operation:
    """The method with its arguments checked: wrong types are refused with `InvalidInput` before it begins."""
    validated = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(method)

    @functools.wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = validated(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result
        except ValidationError as error:
            if error.title != method.__qualname__:
                raise  # of something that the method did
            raise InvalidInput(f"{method.__name__}: {explain(error)}") from error

    return call


def operation(method: Method[Owner, Params, Result]) -> Method[Owner, Params, Result]:
    """Let other processes call a method, with checked arguments."""
    marked = checked(method)
    setattr(marked, _OPERATION, True)
    return marked


def index_operation(method: Method[Owner, Params, Result]) -> Method[Owner, Params, Result]:
    """An operation of an agency that answers from its index: the directory first asks the hosts for updates that they
    have not sent yet, so that the caller finds everything that happened before the call."""
    marked = operation(method)
    setattr(marked, _READS_INDEX, True)
    return marked


def urgent(method: Method[Owner, Params, Result]) -> Method[Owner, Params, Result]:
    """Let an operation of an agency go before its other calls, and never be refused for their number: for what its
    running threads ask, for feeds, which wait long, and for whether a key is right. It must be short."""
    setattr(method, _URGENT, True)
    return method


def operations(*methods: Callable[..., Any]) -> dict[str, Operation]:
    """Methods of the library as operations, by name."""
    return {method.__name__: checked(method) for method in methods}


def operations_of(owner: type) -> dict[str, Operation]:
    """The methods of a class that are marked as operations, by name."""
    return {name: method for name, method in vars(owner).items() if hasattr(method, _OPERATION)}


def is_index_operation(method: Callable[..., Any]) -> bool:
    return hasattr(method, _READS_INDEX)


def is_urgent_operation(method: Callable[..., Any]) -> bool:
    return hasattr(method, _URGENT)


class Remote(Protocol):
    """A handle: it knows which thread or agency its calls go to."""

    async def _call(
        self, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], done: type[AgencyError] | None
    ) -> Any: ...


@overload
def remote(
    method: Callable[Concatenate[Any, Params], Awaitable[Result]],
    *,
    done: type[AgencyError] | None = None,
    keyed: bool = False,
) -> Callable[Concatenate[Any, Params], Coroutine[Any, Any, Result]]: ...


@overload
def remote(
    method: Callable[Concatenate[Any, Params], Result], *, done: type[AgencyError] | None = None, keyed: bool = False
) -> Callable[Concatenate[Any, Params], Coroutine[Any, Any, Result]]: ...


def remote(
    method: Callable[..., Any], *, done: type[AgencyError] | None = None, keyed: bool = False
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """An operation as a method of a handle, with the same signature.

    `done` is the refusal that means, if the call had to be repeated because its answer was lost, that it was done the
    first time. `keyed` gives the operation an `idempotency_key` of its own if the caller gives none.
    """

    @functools.wraps(method)
    async def call(handle: Remote, *args: Any, **kwargs: Any) -> Any:
        if keyed and kwargs.get("idempotency_key") is None:
            kwargs["idempotency_key"] = new_key()
        return await handle._call(method.__name__, args, kwargs, done)

    return call


def new_key() -> str:
    """An idempotency key for a call that may have to be repeated because its answer was lost."""
    return f"{OURS}call:{secrets.token_hex(12)}"
