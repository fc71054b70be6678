"""File keeping: what a middleware provides that keeps an agent's files, as the stock `filesystem` does.

The one idea: it is a protocol beside `Middleware`, because it answers requests of people and of other threads (hand
files in, list, read, delete, hand back) instead of following a run. An agent without a file keeper has no files.

class Documents(Middleware, FileKeeper):
    name = "documents"
    …
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from agency.define.hooks import Config, HookContext
from agency.store.draft import Draft


@runtime_checkable
class FileKeeper(Protocol[Config]):
    """Define all five. A path is text of the keeper's own choosing; refuse one with `InvalidInput`, which its caller
    gets to see. What a method writes through `ctx.store` is committed when it returns."""

    async def on_files(self, ctx: HookContext[Config], files: Mapping[str, str | bytes]) -> None:
        """Files were handed in, by path: keep them. Raise `InvalidInput` to refuse them all."""

    async def files(self, ctx: HookContext[Config]) -> dict[str, int]:
        """The files that it keeps: their sizes in bytes, by path."""

    async def read_file(self, ctx: HookContext[Config], path: str) -> bytes | None:
        """A file's content; None if it keeps none under this path."""

    async def delete_file(self, ctx: HookContext[Config], path: str) -> bool:
        """Keep a file no longer; whether there was one."""

    def handed_back(self, store: Draft, paths: Sequence[str]) -> dict[str, str]:
        """The text files under these paths, for the parent that wants them back; those that are not there are left
        out. Not async: it is part of the commit that ends a run, and nothing may come between."""


AnyFileKeeper = FileKeeper[Any]  # each has its own type of configuration
