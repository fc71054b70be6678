"""The command line itself, the options that most commands have, and how commands print for people and for scripts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from agency.errors import AgencyError

app = typer.Typer(
    name="agency",
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
        help="Your agents, as [bold]package.module:name[/]. [dim]Default: the offline demo[/]", show_default=False
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="The folder that keeps all data. [dim]Default: AGENCY_DATA_DIR, else ./data[/]", show_default=False
    ),
]
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
    table = Table(*headings, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    out.print(table)


def print_json(value: BaseModel) -> None:
    sys.stdout.write(value.model_dump_json(indent=2) + "\n")
