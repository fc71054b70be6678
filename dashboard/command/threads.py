"""`agency threads` and `logs`: list a server's threads, and show the events of one."""

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
from dashboard.command.terminal.console import AsJson, DataDir, app, err, print_json, print_line, print_table
from dashboard.command.terminal.rendering import clean, event_line, moment
from dashboard.command.terminal.targets import AgencyId, ServerUrl, ThreadName, agencies, server, the_thread

if TYPE_CHECKING:
    from agency.client import Thread

STYLES: dict[RunStatus, str] = {
    "registered": "dim",
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
    status: Annotated[RunStatus | None, typer.Option(help="Only threads whose latest run has this status.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The number of threads.")] = 20,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List threads and their status, the newest first."""
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
            clean(thread.title or ""),
            "" if (origin := thread.forked_from) is None else f"{origin.thread_id} after {origin.seq}",
        )
        for thread in found
    ]
    print_table(("thread", "agent", "status", "events", "updated", "title", "fork of"), rows)


@app.command()
def logs(
    thread: ThreadName,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep showing new events, until Ctrl-C.")] = False,
    after: Annotated[int, typer.Option(min=0, help="Start after the event with this number.")] = 0,
    agency: AgencyId = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, for scripts.")] = False,
) -> None:
    """Show a thread's events, one per line. --follow survives restarts of the server."""
    with server(url, data_dir) as client:
        found = the_thread(client, thread, agency)
        for event in found.events(after) if follow else _stored(found, after):
            if event.type == EventType.MODEL_DELTA:
                continue  # one line per word; the conversation has the text
            if as_json:
                sys.stdout.write(event.model_dump_json() + "\n")
                sys.stdout.flush()
            else:
                print_line(event_line(event))


def _stored(thread: Thread, after: int) -> Iterator[Event]:
    while page := thread.stored_events(after, PAGE):
        yield from page
        after = page[-1].seq or after
