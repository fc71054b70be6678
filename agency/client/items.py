"""Lists at a server: objects to iterate over, which fetch a page when the items before it are used up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")
Other = TypeVar("Other")


class Items(Generic[Item]):
    """A list at the server. Iterating asks for it anew."""

    def __init__(self, what: str, fetch: Callable[[], Iterator[Item]]) -> None:
        self._what = what
        self._fetch = fetch

    def __iter__(self) -> Iterator[Item]:
        return self._fetch()

    def __repr__(self) -> str:
        return f"<Items of {self._what}: iterate over them, or call all() or first()>"

    def all(self) -> list[Item]:
        """All of them, now."""
        return list(self)

    def first(self) -> Item | None:
        """The first one, if there is one."""
        return next(iter(self), None)

    def each(self, change: Callable[[Item], Other]) -> Items[Other]:
        """The same list, of what becomes of each item."""
        return Items(self._what, lambda: map(change, self._fetch()))


class AsyncItems(Generic[Item]):
    """A list at the server. Iterating asks for it anew."""

    def __init__(self, what: str, fetch: Callable[[], AsyncIterator[Item]]) -> None:
        self._what = what
        self._fetch = fetch

    def __aiter__(self) -> AsyncIterator[Item]:
        return self._fetch()

    def __repr__(self) -> str:
        return f"<AsyncItems of {self._what}: iterate over them by `async for`, or await all() or first()>"

    async def all(self) -> list[Item]:
        """All of them, now."""
        return [item async for item in self]

    async def first(self) -> Item | None:
        """The first one, if there is one."""
        async for item in self:
            return item
        return None

    def each(self, change: Callable[[Item], Other]) -> AsyncItems[Other]:
        """The same list, of what becomes of each item."""

        async def changed() -> AsyncIterator[Other]:
            async for item in self:
                yield change(item)

        return AsyncItems(self._what, changed)
