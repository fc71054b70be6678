"""`agency edit`: change what an agent keeps, its todos or one of its files, in your editor or from standard input."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated

import click
import typer
from pydantic import JsonValue

from agency.errors import InvalidInput
from agency.wire import read_json
from dashboard.command.terminal.console import DataDir, app, err
from dashboard.command.terminal.targets import AgencyId, ServerUrl, ThreadName, server, the_thread

if TYPE_CHECKING:
    from agency.client import Thread


@app.command()
def edit(
    thread: ThreadName,
    part: Annotated[str, typer.Argument(help="[bold]todos[/], or the path of a file.")],
    delete: Annotated[bool, typer.Option("--delete", help="Delete the file.")] = False,
    agency: AgencyId = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Edit an agent's todos or one of its files, while no run is at work. Opens your editor ($EDITOR), or takes the
    new content from standard input."""
    if part != "todos" and not part.startswith("/"):
        raise InvalidInput(f"name `todos` or the path of a file, such as /notes.md, not {part!r:.100}")
    if delete and part == "todos":
        raise InvalidInput("--delete is for a file; to empty the todos, give []")
    with server(url, data_dir) as client:
        found = the_thread(client, thread, agency)
        seq = found.info().seq
        typed = None if delete else _typed(lambda: _content(found, part), part)
        if typed is None and not delete:
            err.print("nothing changed")
            return
        found.edit_state({"todos": _todos(typed or "")} if part == "todos" else {"files": {part: typed}}, seq=seq)
    err.print(f"{part} of {found.agency_id}/{found.id} is {'deleted' if delete else 'changed'}", highlight=False)


def _content(thread: Thread, part: str) -> str:
    """What is there now; a file that is not there is empty."""
    kept = thread.state().state.model_extra or {}
    if part == "todos":
        return json.dumps(kept.get("todos", []), indent=2, ensure_ascii=False)
    return str(dict(kept.get("files", {})).get(part, ""))


def _typed(content: Callable[[], str], part: str) -> str | None:
    """The new content; None if the editor was left without a change."""
    if not sys.stdin.isatty():
        return sys.stdin.read()
    extension = ".json" if part == "todos" else PurePosixPath(part).suffix or ".txt"
    return click.edit(content(), extension=extension)


def _todos(typed: str) -> JsonValue:
    try:
        return read_json(typed)
    except ValueError as error:
        raise InvalidInput(f"todos are a JSON list of {{content, status}}: {error}") from error
