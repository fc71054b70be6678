"""`agency threads` and `logs`: what goes on at a server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from agency.api import bodies as api
from agency.api.tenancy import ThreadSummary
from agency.events import Event, EventType
from agency.thread.views import RunStatus
from dashboard.command.console import AsJson, DataDir, app, err, print_json, print_line, print_table
from dashboard.command.finding import AgencyId, ServerUrl, ThreadName, agencies, server, the_thread
from dashboard.command.shown import clean, event_line, moment

if TYPE_CHECKING:
    from agency.client import Thread

STYLES: dict[RunStatus, str] = {
    "idle": "dim",
    "running": "cyan",
    "paused": "bold yellow",
    "completed": "green",
    "canceled": "dim",
    "error": "red",
}
PAGE = 1_000


@app.command()
def threads(
    agency: AgencyId = None,
    status: Annotated[RunStatus | None, typer.Option(help="Only those whose latest run is so.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, the newest first.")] = 20,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List threads and what each is doing, the newest first."""
    with server(url, data_dir) as client:
        found = [
            thread
            for each in agencies(client, agency)
            for thread in islice(client.agency(each.id).threads(status=status, newest_first=True), limit)
        ]
    newest = sorted(found, key=lambda thread: thread.created_at, reverse=True)[:limit]
    if as_json:
        print_json(api.ThreadPage(agents=tuple(newest)))
    else:
        _print(newest)


def _print(found: list[ThreadSummary]) -> None:
    if not found:
        err.print("there are no such threads")
    rows = [
        (
            f"{thread.agency_id}/{thread.id}",
            clean(thread.agent_type),
            Text(": ".join(filter(None, (thread.status, thread.reason))), STYLES[thread.status]),
            str(thread.seq),
            moment(thread.updated_at),
            "" if (origin := thread.forked_from) is None else f"{origin.thread_id} after {origin.seq}",
        )
        for thread in found
    ]
    print_table(("thread", "agent", "status", "events", "updated", "fork of"), rows)


@app.command()
def logs(
    thread: ThreadName,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with what happens, until Ctrl-C.")] = False,
    after: Annotated[int, typer.Option(min=0, help="Begin after the event with this number.")] = 0,
    agency: AgencyId = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts: one JSON object a line.")] = False,
) -> None:
    """Show a thread's events, a line each. Following survives restarts of the server."""
    with server(url, data_dir) as client:
        found = the_thread(client, thread, agency)
        for event in found.events(after) if follow else _stored(found, after):
            if event.type == EventType.MODEL_DELTA:
                continue  # the text of a reply is in the conversation; here it would be a line a word
            if as_json:
                sys.stdout.write(event.model_dump_json() + "\n")
                sys.stdout.flush()
            else:
                print_line(event_line(event))


def _stored(thread: Thread, after: int) -> Iterator[Event]:
    while page := thread.stored_events(after, PAGE):
        yield from page
        after = page[-1].seq or after
