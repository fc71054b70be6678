"""What a system gives its tools and hooks besides their arguments: a database, a client, settings. They get it as
`ctx.deps`, typed by `ToolContext[Deps]` and `HookContext[Config, Options, Deps]`.

The one idea: it belongs to a process. An object is there in every process that imports the system; a factory is opened
in each process that runs its threads, and closed with it (`agency/thread/supply.py`). It is never stored, and never
pickled: a context that travels to another process leaves it behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Protocol, Self

from agency.errors import DefinitionError, ToolError

Factory = Callable[[], AbstractAsyncContextManager[object]]
"""What opens it in a process: a function with `@asynccontextmanager`, or a class of such objects."""

UNSET = object()

NO_MANAGER = "makes no async context manager: write one that yields, with @asynccontextmanager above it"


class Provided(Protocol):
    def get(self) -> object:
        """What was provided; `ToolError` if it is not there."""


class ProvidesNothing:
    """Outside of a thread that is open, and in a process that a context was sent to."""

    def get(self) -> object:
        raise ToolError(
            "ctx.deps is not here: in a Ray task, annotate the context as ToolContext[…] to have it opened",
            kind="unavailable",
        )


class Provision:
    """What a system was given: an object, or a factory; and what tests have put in its place."""

    def __init__(self) -> None:
        self._given: object = UNSET
        self._instead: list[object] = []
        self.factory: Factory | None = None

    def set(self, given: object, factory: Factory | None) -> None:
        self._given, self.factory = given, factory

    @contextmanager
    def replaced(self, given: object) -> Iterator[None]:
        self._instead.append(given)
        try:
            yield
        finally:
            self._instead.remove(given)

    @property
    def at_hand(self) -> object:
        """What needs no opening; `UNSET` if there is nothing."""
        return self._instead[-1] if self._instead else self._given

    def check(self, where: str, wanted: object) -> None:
        """Refuse a tool that wants something else than what is provided."""
        if self.at_hand is UNSET and self.factory is None:
            raise DefinitionError(f"{where} wants ctx.deps, and the system has none: give it by system.provide(…)")
        if self.at_hand is not UNSET and not _fits(self.at_hand, wanted):
            kind = type(self.at_hand).__name__
            raise DefinitionError(f"{where} wants ctx.deps to be {_named(wanted)}, and the system provides {kind}")


def _fits(value: object, wanted: object) -> bool:
    """Whether a value may be what a type says; of a protocol or a generic type, only a type checker knows."""
    if not isinstance(wanted, type) or getattr(wanted, "_is_protocol", False):
        return True
    return isinstance(value, wanted)


def _named(wanted: object) -> str:
    return wanted.__name__ if isinstance(wanted, type) else str(wanted)


class ProvidesDeps:
    """What an `AgentSystem` can be given for its tools and hooks."""

    provision: Provision

    def provide(self, deps: object = UNSET, *, factory: Factory | None = None) -> Self:
        """Give tools and hooks something to work with, as `ctx.deps`: an object, or a `factory` that makes an async
        context manager, as a function with `@asynccontextmanager` does. Each process that runs threads opens the
        factory once, for all its threads, and closes it at its end; while that fails, `ctx.deps` is not available, and
        it is tried again. Providing again takes the place of what was provided, for threads that are opened then.

        Do this where the system is defined: hosts import it from there. It is never stored or sent.
        """
        if (deps is UNSET) == (factory is None):
            raise DefinitionError("provide() takes an object, or a factory=…, and one of them")
        if factory is not None and not callable(factory):
            raise DefinitionError(f"provide(factory=…) takes a function, not {factory!r:.100}")
        if isasyncgenfunction(factory) or isgeneratorfunction(factory) or iscoroutinefunction(factory):
            raise DefinitionError(f"provide(factory=…): {factory.__name__} {NO_MANAGER}")
        self.provision.set(deps, factory)
        return self

    @contextmanager
    def replaced(self, deps: object) -> Iterator[Self]:
        """For tests: in this block, `ctx.deps` is this, at once and in threads that are open, and no factory is
        opened."""
        with self.provision.replaced(deps):
            yield self
