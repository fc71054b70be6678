"""`agency search` and `rename`: find threads by what was said in them, and give them titles."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer
from rich.text import Text

from agency.api.overview import SearchHit, SearchPage
from dashboard.command.terminal.console import AsJson, DataDir, app, err, print_json, print_table
from dashboard.command.terminal.rendering import clean, moment
from dashboard.command.terminal.targets import AgencyId, ServerUrl, ThreadName, agencies, server, the_thread


@app.command()
def search(
    query: Annotated[
        str, typer.Argument(help='Words that must all occur; [bold]"in quotation marks"[/] one after the other.')
    ],
    agency: AgencyId = None,
    limit: Annotated[int, typer.Option(min=1, help="The number of threads.")] = 20,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Find threads by their titles and by what was said in them, the best first.

    [dim]A word after a minus must not occur: put -- before a query that begins with one.[/]
    """
    with server(url, data_dir) as client:
        found = [
            (each.id, hit)
            for each in agencies(client, agency)
            for hit in islice(client.agency(each.id).search(query), limit)
        ]
    if as_json:
        print_json(SearchPage(hits=tuple(hit for _, hit in found)))
        return
    if not found:
        err.print("there are no such threads")
    rows = [
        (
            f"{where}/{hit.thread_id}",
            clean(hit.title or hit.agent_type),
            moment(hit.at or hit.updated_at),
            _snippet(hit),
        )
        for where, hit in found
    ]
    print_table(("thread", "title", "said", "where"), rows)


@app.command()
def rename(
    thread: ThreadName,
    title: Annotated[str, typer.Argument(help="The title; empty gives the thread its own title back.")],
    agency: AgencyId = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Give a thread another title."""
    with server(url, data_dir) as client:
        renamed = the_thread(client, thread, agency).rename(title or None)
    if as_json:
        print_json(renamed)
    else:
        typer.echo(clean(renamed.title or ""))


def _snippet(hit: SearchHit) -> Text:
    text = Text()
    for part in hit.snippet:
        text.append(clean(" ".join(part.text.split(" "))), "bold" if part.match else "")
    return text
