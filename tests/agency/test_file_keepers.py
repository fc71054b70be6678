"""File keepers: a middleware of one's own keeps an agent's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from agency import (
    AgentSystem,
    DefinitionError,
    Draft,
    FileKeeper,
    HookContext,
    HookFailed,
    InvalidInput,
    Middleware,
    NotFound,
    open_thread,
)
from agency.testing import ScriptedModel


class Cabinet(Middleware):
    """Keeps files without inheriting from `FileKeeper`: its methods make it one."""

    name = "cabinet"
    tags = ("default",)
    tables = ("CREATE TABLE cabinet (path TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT",)

    async def on_files(self, ctx: HookContext, files: Mapping[str, str | bytes]) -> None:
        for path, content in files.items():
            if path == "/no":
                raise InvalidInput("not this one")
            stored = content.encode() if isinstance(content, str) else content
            ctx.store.execute("REPLACE INTO cabinet VALUES (?, ?)", (path, stored))

    async def files(self, ctx: HookContext) -> dict[str, int]:
        rows = ctx.store.query("SELECT path, length(content) FROM cabinet")
        return {str(path): int(str(size)) for path, size in rows}

    async def read_file(self, ctx: HookContext, path: str) -> bytes | None:
        if path == "/broken":
            raise RuntimeError("the drawer is stuck")
        rows = ctx.store.query("SELECT content FROM cabinet WHERE path = ?", (path,))
        return rows[0][0] if rows else None  # type: ignore[return-value]  # a BLOB column

    async def delete_file(self, ctx: HookContext, path: str) -> bool:
        there = bool(ctx.store.query("SELECT 1 FROM cabinet WHERE path = ?", (path,)))
        ctx.store.execute("DELETE FROM cabinet WHERE path = ?", (path,))
        return there

    def handed_back(self, store: Draft, paths: Sequence[str]) -> dict[str, str]:
        return {}


def system_with(*middleware: Middleware) -> AgentSystem:
    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(["done"])})
    for each in middleware:
        system.use(each)
    return system.add_agent(name="clerk", description="Files.", prompt="File.")


async def test_a_middleware_with_the_methods_of_a_file_keeper_keeps_files(tmp_path: Path) -> None:
    assert isinstance(Cabinet(), FileKeeper)
    async with open_thread(system_with(Cabinet()), tmp_path / "t.db", agent="clerk") as thread:
        await thread.put_files({"/a": "one", "/b": b"\0\1"})
        assert [(each.path, each.size) for each in await thread.files()] == [("/a", 3), ("/b", 2)]
        assert await thread.read_file("/b") == b"\0\1"
        await thread.delete_file("/a")
        with pytest.raises(NotFound):
            await thread.read_file("/a")


async def test_a_refusal_reaches_the_caller_and_a_failure_names_the_keeper(tmp_path: Path) -> None:
    async with open_thread(system_with(Cabinet()), tmp_path / "t.db", agent="clerk") as thread:
        with pytest.raises(InvalidInput, match="not this one"):
            await thread.put_files({"/a": "one", "/no": "two"})
        assert await thread.files() == (), "all or none"
        with pytest.raises(HookFailed, match=r"cabinet.*read_file.*stuck"):
            await thread.read_file("/broken")


async def test_an_agent_without_a_file_keeper_has_no_files(tmp_path: Path) -> None:
    async with open_thread(system_with(), tmp_path / "t.db", agent="clerk") as thread:
        assert await thread.files() == ()
        with pytest.raises(InvalidInput, match="'clerk' keeps no files"):
            await thread.put_files({"/a": "one"})


def test_a_middleware_that_is_half_a_file_keeper_is_refused() -> None:
    class Half(Middleware):
        name = "half"
        tags = ("default",)

        async def on_files(self, ctx: HookContext, files: Mapping[str, str | bytes]) -> None: ...

        async def files(self, ctx: HookContext) -> dict[str, int]:
            return {}

    class HalfByName(Half, FileKeeper):
        """What it inherits from the protocol does nothing, and is not taken for a definition."""

    for half in (Half(), HalfByName()):  # type: ignore[abstract]  # a type checker refuses it, too
        with pytest.raises(DefinitionError, match="to be a FileKeeper, it must define read_file, delete_file, handed"):
            system_with(half)


def test_the_methods_of_a_file_keeper_must_be_async() -> None:
    class Hasty(Cabinet):
        name = "hasty"

        def files(self, ctx: HookContext) -> dict[str, int]:  # type: ignore[override]  # that is what is refused
            return {}

    with pytest.raises(DefinitionError, match="hook 'files' must be async"):
        system_with(Hasty())
