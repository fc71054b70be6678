"""Filesystem: files that live in the thread's own store. Nothing here touches the machine's disk.

A file must have been read before it is edited, so that the model edits what is there and not what it imagines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue

from agency import (
    Draft,
    FileKeeper,
    HookContext,
    InvalidInput,
    Middleware,
    Plan,
    StateEditor,
    ToolContext,
    ToolError,
    tool,
)
from agency.errors import TooLarge
from agency.names import file_path
from agency.wire import sayable_text

READ_LINES = 2_000
LINE_CHARS = 2_000
FILE_CHARS = 2_000_000

FILES_AT_ONCE = 1_000

PROMPT = """\
You have files of your own: `ls`, `read_file`, `write_file`, `edit_file`. Paths begin with "/". Read a file before you \
edit it. Use files for anything long that you will need again."""


def _absolute(path: str) -> str:
    try:
        return file_path(path)
    except InvalidInput as error:
        raise ValueError(str(error)) from error


Path = Annotated[str, AfterValidator(_absolute), Field(description='Absolute path, beginning with "/".')]


@tool(safe=True)
async def ls(ctx: ToolContext) -> list[str]:
    """List the paths of all files."""
    return [str(path) for (path,) in ctx.store.query("SELECT path FROM files ORDER BY path")]


@tool(safe=True)
async def read_file(
    path: Path,
    ctx: ToolContext,
    offset: Annotated[int, Field(ge=0, description="How many lines to skip.")] = 0,
    limit: Annotated[int, Field(ge=1, description="How many lines to read.")] = READ_LINES,
) -> str:
    """Read a text file, with line numbers."""
    text = _text(ctx, path)
    ctx.store.execute("UPDATE files SET was_read = 1 WHERE path = ?", (path,))
    if not text:
        return "(the file is empty)"
    lines = text.removesuffix("\n").split("\n")
    if offset >= len(lines):
        raise ToolError(f"offset {offset} is past the end: {path} has {len(lines)} lines", kind="invalid_request")
    shown = lines[offset : offset + min(limit, READ_LINES)]
    return "\n".join(f"{number:6}\t{line[:LINE_CHARS]}" for number, line in enumerate(shown, offset + 1))


@tool
async def write_file(path: Path, content: str, ctx: ToolContext) -> str:
    """Write a text file, replacing it if it exists."""
    _store(ctx, path, content)
    return f"Wrote {path} ({len(content)} characters)."


@tool
async def edit_file(
    path: Path,
    old_string: Annotated[str, Field(alias="oldString", min_length=1, description="The exact text to replace.")],
    new_string: Annotated[str, Field(alias="newString", description="What to put there.")],
    ctx: ToolContext,
    replace_all: Annotated[bool, Field(alias="replaceAll", description="Replace every occurrence.")] = False,
) -> str:
    """Replace text in a file that you have read."""
    text = _text(ctx, path)
    if ctx.store.query("SELECT was_read FROM files WHERE path = ?", (path,)) == [(0,)]:
        raise ToolError(f"read {path} with read_file before you edit it", kind="invalid_request")
    found = text.count(old_string)
    if found == 0:
        raise ToolError(f"oldString was not found in {path}", kind="invalid_request")
    if found > 1 and not replace_all:
        message = f"oldString occurs {found} times in {path}: give more of the text around it, or set replaceAll"
        raise ToolError(message, kind="invalid_request")
    _store(ctx, path, text.replace(old_string, new_string))
    return f"Replaced {found} occurrence{'s' if found > 1 else ''} in {path}."


def _text(ctx: ToolContext, path: str) -> str:
    rows = ctx.store.query("SELECT content FROM files WHERE path = ?", (path,))
    if not rows:
        raise ToolError(f"there is no file {path}", kind="invalid_request")
    content = rows[0][0]
    assert isinstance(content, bytes)
    text = _decoded(content)
    if text is None:
        raise ToolError(f"{path} is binary ({len(content)} bytes), not text", kind="invalid_request")
    return text


def files_of(store: Draft, paths: Sequence[str]) -> dict[str, str]:
    """The text files under these paths; what is not there, or is no text, is left out."""
    if not store.query("SELECT 1 FROM sqlite_schema WHERE name = 'files'"):
        return {}
    found: dict[str, str] = {}
    for path in paths:
        rows = store.query("SELECT content FROM files WHERE path = ?", (path,))
        text = _decoded(rows[0][0]) if rows and isinstance(rows[0][0], bytes) else None
        if text is not None:
            found[path] = text
    return found


def _decoded(content: bytes) -> str | None:
    """The text of a file; None if it is binary."""
    if b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _store(ctx: ToolContext, path: str, content: str) -> None:
    encoded = _encoded(content)
    try:
        ctx.file_limits.check(path, len(encoded), *_others(ctx.store, [path]))
    except TooLarge as error:
        raise ToolError(str(error), kind="resource_limit") from None
    _keep(ctx.store, path, encoded, "content = excluded.content")


def _others(store: Draft, paths: Sequence[str]) -> tuple[int, int]:
    """How many files there are beside these, and how many bytes they have together."""
    known = json.dumps(paths)
    sql = (
        "SELECT count(*), coalesce(sum(length(content)), 0) FROM files "
        "WHERE path NOT IN (SELECT value FROM json_each(?))"
    )
    ((count, taken),) = store.query(sql, (known,))
    assert isinstance(count, int)
    assert isinstance(taken, int)
    return count, taken


def _keep(store: Draft, path: str, content: bytes, change: str) -> None:
    sql = f"INSERT INTO files (path, content) VALUES (?, ?) ON CONFLICT DO UPDATE SET {change}"
    store.execute(sql, (path, content))


def _encoded(content: str) -> bytes:
    if "\0" in content:
        raise ToolError("the content is binary (it has NUL characters); files here are text", kind="invalid_request")
    if len(content) > FILE_CHARS:
        message = f"the content has {len(content)} characters; a file has at most {FILE_CHARS}"
        raise ToolError(message, kind="resource_limit")
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"the content is not valid text: {error}", kind="invalid_request") from error


def _handed_in(path: str, content: str | bytes) -> bytes:
    """What a person gives, as it is kept. It may be binary, an image say."""
    try:
        return _encoded(content) if isinstance(content, str) else content
    except ToolError as error:
        refusal = TooLarge if error.kind == "resource_limit" else InvalidInput
        raise refusal(f"file {path!r:.200}: {error}") from error


def _named(path: str) -> str:
    """A path that a caller gives, in the form in which it is kept."""
    try:
        return file_path(path)
    except InvalidInput as error:
        raise InvalidInput(f"file {path!r:.200}: {error}") from error


def _known(store: Draft, path: str) -> str:
    """The same of a file that is there: one that an earlier release took in may be called what none is called today."""
    sayable = path == sayable_text(path)
    return path if sayable and store.query("SELECT 1 FROM files WHERE path = ?", (path,)) else _named(path)


class Filesystem(Middleware, FileKeeper, StateEditor):
    name = "filesystem"
    tags = ("filesystem",)
    registers = tuple(each.name for each in (ls, read_file, write_file, edit_file))
    editable = ("files",)
    tables = (
        "CREATE TABLE files (path TEXT PRIMARY KEY, content BLOB NOT NULL, was_read INTEGER NOT NULL DEFAULT 0) STRICT",
    )

    async def on_init(self, ctx: HookContext) -> None:
        for each in (ls, read_file, write_file, edit_file):
            ctx.register_tool(each)

    async def before_model(self, ctx: HookContext, plan: Plan) -> None:
        plan.add_prompt(PROMPT)

    async def on_files(self, ctx: HookContext, files: Mapping[str, str | bytes]) -> None:
        if len(files) > FILES_AT_ONCE:
            raise InvalidInput(f"at most {FILES_AT_ONCE} files can be handed in at once, not {len(files)}")
        given = {_named(path): _handed_in(path, content) for path, content in files.items()}
        count, taken = _others(ctx.store, list(given))
        for path, content in given.items():
            ctx.file_limits.check(path, len(content), count, taken)
            count, taken = count + 1, taken + len(content)
            # The model has not seen it, whatever was there before.
            _keep(ctx.store, path, content, "content = excluded.content, was_read = 0")

    async def files(self, ctx: HookContext) -> dict[str, int]:
        rows = ctx.store.query("SELECT path, length(content) FROM files ORDER BY path")
        return {str(path): size for path, size in rows if isinstance(size, int)}

    async def read_file(self, ctx: HookContext, path: str) -> bytes | None:
        rows = ctx.store.query("SELECT content FROM files WHERE path = ?", (_known(ctx.store, path),))
        content = rows[0][0] if rows else None
        return content if isinstance(content, bytes) else None

    async def delete_file(self, ctx: HookContext, path: str) -> bool:
        named = (_known(ctx.store, path),)
        there = bool(ctx.store.query("SELECT 1 FROM files WHERE path = ?", named))
        ctx.store.execute("DELETE FROM files WHERE path = ?", named)
        return there

    async def edit_state(self, ctx: HookContext, part: str, value: JsonValue) -> tuple[str, ...]:
        """By path: text to keep there, or None to delete what is there."""
        if not isinstance(value, dict) or not value or any(not isinstance(text, str | None) for text in value.values()):
            raise InvalidInput("files are texts by path, or null to delete one")
        kept = {path: text for path, text in value.items() if isinstance(text, str)}
        await self.on_files(ctx, kept)
        for path in value.keys() - kept.keys():
            if not await self.delete_file(ctx, path):
                raise InvalidInput(f"there is no file {path!r:.200} to delete")
        told = [f"{path} ({'edited' if path in kept else 'deleted'})" for path in value]
        ctx.inject("user", f"(A person changed your files: {', '.join(told)}.)")
        return tuple(path if path not in kept else _named(path) for path in value)

    def handed_back(self, store: Draft, paths: Sequence[str]) -> dict[str, str]:
        return files_of(store, paths)

    async def state(self, ctx: HookContext) -> dict[str, JsonValue]:
        rows = ctx.store.query("SELECT path, content FROM files ORDER BY path")
        return {"files": {str(path): _shown(content) for path, content in rows if isinstance(content, bytes)}}


def _shown(content: bytes) -> str:
    text = _decoded(content)
    return f"(binary, {len(content)} bytes)" if text is None else text


filesystem = Filesystem()
