"""The command line itself, the options that most commands have, and how commands print for people and for scripts."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from agency.errors import AgencyError

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}")


class Commands(TyperGroup):
    """The commands, and those that the server's middleware bring."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        from dashboard.command.extensions import brought  # here, because that registers its own command with `app`

        if args and _NAME.fullmatch(args[0]) and not self._is_like(ctx, args[0]):
            found = brought(args[0], args[1:])
            if found is not None:
                return args[0], typer.main.get_command(found), args[1:]
        return super().resolve_command(ctx, args)

    def _is_like(self, ctx: Any, name: str) -> bool:
        """Whether it is a command, or is likely to be one with a slip of the finger."""
        known = self.list_commands(ctx)
        return name in known or bool(get_close_matches(name, known))


app = typer.Typer(
    name="agency",
    cls=Commands,
    help="Serve durable multi-agent threads, watch them and decide what they may do.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
)
out = Console()
err = Console(stderr=True)

System = Annotated[
    str | None,
    typer.Argument(
        help="Your agents, as [bold]package.module:name[/]. "
        "[dim]Default: AGENCY_SYSTEM, a general agent if a model's key is set, else the offline demo[/]",
        show_default=False,
    ),
]
SystemOption = Annotated[
    str | None,
    typer.Option(
        "--system",
        help="Your agents, as [bold]package.module:name[/]. "
        "[dim]Default: AGENCY_SYSTEM, a general agent if a model's key is set, else the offline demo[/]",
        show_default=False,
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="The folder that keeps all data. [dim]Default: AGENCY_DATA_DIR, else ./data[/]", show_default=False
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        help="The Ray cluster to join, as [bold]host:port[/]. [dim]Default: AGENCY_RAY_ADDRESS or RAY_ADDRESS, else "
        "one that you have started on this machine, else a local one, which is started[/]",
        show_default=False,
    ),
]
IsDemo = Annotated[bool, typer.Option("--demo", help="The offline demo, though a model's key is set.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def complain(error: AgencyError) -> None:
    """Print an error on stderr: its stable code and its message."""
    err.print(f"[red]{error.code}[/] {escape(str(error))}", highlight=False, soft_wrap=True)


def print_line(line: Text, console: Console = out) -> None:
    """Print one line: cut off at the edge of a terminal, and whole when the output goes to a file or a pipe."""
    if console.is_terminal:
        console.print(line, no_wrap=True, overflow="ellipsis")
    else:
        console.print(line, soft_wrap=True)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print a table; to a file or a pipe, print lines with tabs, which cut nothing off."""
    if not out.is_terminal:
        for row in rows:
            sys.stdout.write("\t".join(str(cell) for cell in row) + "\n")
        return
    table = Table(box=None, pad_edge=False)
    listed = list(rows)
    for at, heading in enumerate(headings):  # the first column is what other commands take: it is never cut off
        widest = max((len(str(row[at])) for row in listed), default=0) if at == 0 else 0
        table.add_column(heading, min_width=widest or None, no_wrap=at == 0)
    for row in listed:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    out.print(table)


def print_json(value: BaseModel) -> None:
    sys.stdout.write(value.model_dump_json(indent=2) + "\n")
