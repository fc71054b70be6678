"""What all commands share: the command line itself, its common options, and how they speak to people and to scripts."""

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
    help="Durable multi-agent threads: serve them, watch them, answer them.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
)
out = Console()
err = Console(stderr=True)

System = Annotated[
    str | None,
    typer.Argument(
        help="Your agents, as [bold]package.module:name[/]; without it, the offline demo.", show_default=False
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Where everything that lasts is kept. [dim]AGENCY_DATA_DIR, else ./data[/]", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="For scripts: print JSON.")]


def complain(error: AgencyError) -> None:
    err.print(f"[red]{error.code}[/] {escape(str(error))}", highlight=False, soft_wrap=True)


def print_line(line: Text, console: Console = out) -> None:
    """One line: cut off where the screen ends, and whole where there is none."""
    if console.is_terminal:
        console.print(line, no_wrap=True, overflow="ellipsis")
    else:
        console.print(line, soft_wrap=True)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """A table; where there is no screen, lines with tabs, which cut nothing off."""
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
