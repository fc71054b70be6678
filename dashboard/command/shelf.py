"""`agency shelf`: what outlives an agency's threads, as files that people put there and take away."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from agency.errors import InvalidInput
from agency.shelves.interface import ABSENT, ENTRY_BYTES, ShelfList, ShelfPage
from dashboard.command.terminal.console import AsJson, DataDir, app, err, print_json, print_table
from dashboard.command.terminal.rendering import clean, moment
from dashboard.command.terminal.targets import OneAgency, ServerUrl, server, the_agency

shelf = typer.Typer(help="Manage an agency's shelves: what outlives its threads.", no_args_is_help=True)
app.add_typer(shelf, name="shelf")

ShelfName = Annotated[str, typer.Argument(metavar="SHELF", help="The shelf's name.", show_default=False)]
EntryPath = Annotated[
    str, typer.Argument(metavar="PATH", help="The entry's path, such as recipes/rye.md.", show_default=False)
]
IfVersion = Annotated[
    str | None, typer.Option(help="Only if the entry has this version.", metavar="VERSION", show_default=False)
]


@shelf.command("list")
def list_shelf(
    name: Annotated[
        str | None,
        typer.Argument(metavar="SHELF", help="The shelf. [dim]Default: list the shelves[/]", show_default=False),
    ] = None,
    prefix: Annotated[str, typer.Option(help="Only entries whose paths begin so.", show_default=False)] = "",
    agency: OneAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List an agency's shelves, or the entries of one."""
    with server(url, data_dir) as client:
        home = the_agency(client, agency)
        if name is None:
            shelves = home.shelves()
            if as_json:
                print_json(ShelfList(shelves=shelves))
                return
            if not shelves:
                err.print("nothing is on a shelf; `agency shelf put` puts it there")
            rows = [(each.name, str(each.entries), f"{each.size:,}") for each in shelves]
            print_table(("shelf", "entries", "bytes"), rows)
            return
        entries = tuple(home.shelf_entries(name, prefix))
    if as_json:
        print_json(ShelfPage(entries=entries))
        return
    found = [(clean(each.path), each.version, f"{each.size:,}", moment(each.updated_at)) for each in entries]
    print_table(("path", "version", "bytes", "changed"), found)


@shelf.command("get")
def get_entry(
    name: ShelfName,
    path: EntryPath,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file to write. [dim]Default: stdout[/]", show_default=False),
    ] = None,
    agency: OneAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Print an entry's content as it is, or write it to a file. Its version goes to stderr."""
    with server(url, data_dir) as client:
        found = the_agency(client, agency).read_shelf(name, path)
    if output is None:
        sys.stdout.buffer.write(found.content)
        sys.stdout.buffer.flush()
    else:
        try:
            output.write_bytes(found.content)
        except OSError as error:
            raise InvalidInput(f"cannot write {output}: {error.strerror}") from error
    err.print(f"version {found.version}", highlight=False, markup=False)


@shelf.command("put")
def put_entry(
    name: ShelfName,
    path: EntryPath,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file, or - for stdin.", show_default=False)],
    if_version: IfVersion = None,
    new: Annotated[bool, typer.Option("--new", help="Only if there is no entry yet.")] = False,
    agency: OneAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Put a file on a shelf, in the place of what is under that path."""
    if new and if_version is not None:
        raise InvalidInput("use --new or --if-version, not both")
    content = _content(file)
    with server(url, data_dir) as client:
        made = the_agency(client, agency).write_shelf(name, path, content, if_version=ABSENT if new else if_version)
    if as_json:
        print_json(made)
    else:
        err.print(f"{name}/{clean(made.path)} has version {made.version}", highlight=False, markup=False)


@shelf.command("delete")
def delete_entry(
    name: ShelfName,
    path: EntryPath,
    if_version: IfVersion = None,
    agency: OneAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Delete an entry of a shelf."""
    with server(url, data_dir) as client:
        the_agency(client, agency).delete_shelf_entry(name, path, if_version=if_version)
    err.print(f"deleted {name}/{clean(path)}", highlight=False, markup=False)


def _content(file: Path) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read(ENTRY_BYTES + 1)
    try:
        with file.open("rb") as opened:
            return opened.read(ENTRY_BYTES + 1)  # one more, so that what is too large is refused and not cut
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}") from error
