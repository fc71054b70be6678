"""A thread's files: each request goes to those of the agent's middleware that are file keepers.

Nothing is kept here. A keeper stages what it writes in the caller's draft, and the caller commits it. `InvalidInput`
from a keeper is the caller's fault and reaches it as it is; any other failure is named after the keeper, like a hook's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from agency.define.files import AnyFileKeeper, FileKeeper
from agency.define.hooks import HookContext
from agency.errors import HookFailed, InvalidInput
from agency.names import check_name
from agency.store.draft import Draft
from agency.thread.pipeline import Pipeline, run_hook

Answer = TypeVar("Answer")
FileRequest = Callable[[AnyFileKeeper, HookContext[Any, Any, Any]], Awaitable[Answer]]


def keeps_files(pipeline: Pipeline) -> bool:
    """Whether the agent can be given files."""
    return any(isinstance(mw, FileKeeper) for mw in pipeline.middleware)


async def keep_files(pipeline: Pipeline, draft: Draft, files: Mapping[str, str | bytes]) -> None:
    """Have the keepers keep these files, or none of them."""
    if not keeps_files(pipeline):
        raise InvalidInput(f"agent {pipeline.agent!r} keeps no files: it has no filesystem")
    for path in files:
        check_name(path, f"the path {path!r:.200}")  # whatever else a keeper calls a path
    await _ask(pipeline, draft, "on_files", lambda keeper, ctx: keeper.on_files(ctx, files))


async def file_sizes(pipeline: Pipeline, draft: Draft) -> dict[str, int]:
    """The sizes of all files, by path."""
    kept: dict[str, int] = {}
    for each in await _ask(pipeline, draft, "files", lambda keeper, ctx: keeper.files(ctx)):
        kept.update(each)
    return kept


async def read_file(pipeline: Pipeline, draft: Draft, path: str) -> bytes | None:
    found = await _ask(pipeline, draft, "read_file", lambda keeper, ctx: keeper.read_file(ctx, path))
    return next((content for content in found if content is not None), None)


async def delete_file(pipeline: Pipeline, draft: Draft, path: str) -> bool:
    """Whether there was one."""
    return any(await _ask(pipeline, draft, "delete_file", lambda keeper, ctx: keeper.delete_file(ctx, path)))


def files_for_parent(pipeline: Pipeline, draft: Draft, paths: Sequence[str]) -> dict[str, str]:
    """The text files that a parent wants back."""
    found: dict[str, str] = {}
    for mw in pipeline.middleware if paths else ():
        if isinstance(mw, FileKeeper):
            found.update(mw.handed_back(draft, paths))
    return found


async def _ask(pipeline: Pipeline, draft: Draft, name: str, request: FileRequest[Answer]) -> list[Answer]:
    """What each keeper answers, in the order of registration."""
    keepers = [(mw, partial(request, mw)) for mw in pipeline.middleware if isinstance(mw, FileKeeper)]
    try:
        return [await run_hook(name, ask, pipeline.context(mw, draft)) for mw, ask in keepers]
    except HookFailed as error:
        if isinstance(error.__cause__, InvalidInput):
            raise error.__cause__ from None
        raise
