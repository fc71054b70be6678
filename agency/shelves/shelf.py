"""A shelf as tools and hooks have it: `ctx.shelf("notes")`.

    found = await ctx.shelf("notes").read("today.md")
    await ctx.shelf("notes").write("today.md", found.text + "\\n- rye", if_version=found.version)

Tools that are plain functions use `ctx.shelf("notes").blocking`, which has the same methods without `await`.

The one idea: a write is named after the call or run that makes it, so a call that runs again after a crash makes the
same write and not a second one. (What it reads then may be what it has written: code that adds to an entry looks first
whether that is there.) A shelf is no part of the thread's file: what was written there stays, whatever becomes
of the call, the run or the thread, and forks share it with their originals.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agency.secrets import bytes_without_secrets, without_secrets
from agency.shelves.interface import ShelfEntry, ShelfItem, ShelfPage, ShelfStore, Version, as_bytes, checked_shelf


@dataclass(frozen=True, slots=True)
class BlockingShelf:
    """A shelf for code that may block: a tool that is a plain function runs in a thread of its own."""

    store: ShelfStore
    name: str
    key: str
    """Names the call or run that writes."""

    def read(self, path: str) -> ShelfItem:
        """An entry's content and version; `NotFound` if there is none."""
        return self.store.read(self.name, path)

    def write(self, path: str, content: str | bytes, *, if_version: Version | None = None) -> ShelfEntry:
        """Put an entry under a path, in the place of what is there; text becomes UTF-8. With `if_version`, only if that
        is the entry's version, or with `ABSENT` if there is none; else `VersionConflict`: read it again."""
        said, named = bytes_without_secrets(as_bytes(content)), without_secrets(path)
        return self.store.write(self.name, named, said, if_version=if_version, key=self.key)

    def delete(self, path: str, *, if_version: Version | None = None) -> None:
        """Remove an entry; `NotFound` if there is none."""
        self.store.delete(self.name, path, if_version=if_version)

    def entries(self, prefix: str = "", *, after: str = "", limit: int = 100) -> ShelfPage:
        """The entries whose paths begin with a prefix; `next` of a page is `after` of the next one."""
        return self.store.entries(self.name, prefix, after=after, limit=limit)


@dataclass(frozen=True, slots=True)
class Shelf:
    """A shelf for async code: the same, without holding up the event loop."""

    blocking: BlockingShelf
    """The same shelf for code that may block."""

    @classmethod
    def of(cls, store: ShelfStore, name: str, key: str) -> Shelf:
        return cls(BlockingShelf(store, checked_shelf(name), key))

    @property
    def name(self) -> str:
        return self.blocking.name

    async def read(self, path: str) -> ShelfItem:
        """An entry's content and version; `NotFound` if there is none."""
        return await asyncio.to_thread(self.blocking.read, path)

    async def write(self, path: str, content: str | bytes, *, if_version: Version | None = None) -> ShelfEntry:
        """Put an entry under a path, in the place of what is there; text becomes UTF-8. With `if_version`, only if that
        is the entry's version, or with `ABSENT` if there is none; else `VersionConflict`: read it again."""
        return await asyncio.to_thread(self.blocking.write, path, content, if_version=if_version)

    async def delete(self, path: str, *, if_version: Version | None = None) -> None:
        """Remove an entry; `NotFound` if there is none."""
        await asyncio.to_thread(self.blocking.delete, path, if_version=if_version)

    async def entries(self, prefix: str = "", *, after: str = "", limit: int = 100) -> ShelfPage:
        """The entries whose paths begin with a prefix; `next` of a page is `after` of the next one."""
        return await asyncio.to_thread(self.blocking.entries, prefix, after=after, limit=limit)
