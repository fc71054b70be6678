"""`agency threads` and `logs`: list a server's threads, show the events of one, or the server's log."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from agency.api import bodies as api
from agency.api.tenancy import ThreadSummary
from agency.events import Event, EventType
from agency.thread.views import RunStatus
from dashboard.command.call import show_stack
from dashboard.command.terminal.console import AsJson, DataDir, app, err, print_json, print_line, print_table
from dashboard.command.terminal.rendering import clean, event_line, moment, one_line
from dashboard.command.terminal.targets import AgencyId, ServerUrl, agencies, server, the_thread

if TYPE_CHECKING:
    from agency.client import Client, Thread

STYLES: dict[RunStatus, str] = {
    "registered": "dim",
    "running": "cyan",
    "paused": "bold yellow",
    "completed": "green",
    "canceled": "dim",
    "error": "red",
}
PAGE = 1_000
ERRORS = (EventType.TOOL_ERROR, EventType.AGENT_ERROR)
FOLLOW_SECONDS = 1.0


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
            thread.summary
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
    thread: Annotated[
        str | None,
        typer.Argument(
            metavar="THREAD",
            help="A thread's id, or [bold]agency/thread[/]. [dim]Default: show the server's log[/]",
            show_default=False,
        ),
    ] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Only what failed, with tracebacks.")] = False,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep showing what is new, until Ctrl-C.")] = False,
    after: Annotated[int, typer.Option(min=0, help="Start after the event or the line with this number.")] = 0,
    agency: AgencyId = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, for scripts.")] = False,
) -> None:
    """Show a thread's events, one per line. --follow survives restarts of the server.

    Without a thread, show the server's log: what agents' code prints and raises, and warnings.
    """
    with server(url, data_dir) as client:
        if thread is None:
            _show_server_log(client, after, follow=follow, errors=errors, as_json=as_json)
            return
        found = the_thread(client, thread, agency)
        for event in found.events(after) if follow else _stored(found, after):
            if event.type == EventType.MODEL_DELTA:
                continue  # one line per word; the conversation has the text
            if errors:
                _show_error(found, event, as_json=as_json)
            elif as_json:
                sys.stdout.write(event.model_dump_json() + "\n")
                sys.stdout.flush()
            else:
                print_line(event_line(event))


def _show_error(thread: Thread, event: Event, *, as_json: bool) -> None:
    """An event that tells of a failure, with its traceback; nothing for others."""
    if event.type not in ERRORS and "error" not in event.data:
        return
    traces = [each for each in thread.traces((event.seq or 1) - 1) if each.seq == event.seq]
    if as_json:
        told = {**event.model_dump(mode="json"), "traceback": traces[-1].traceback if traces else ""}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        return
    print_line(event_line(event))
    for trace in traces:
        if trace.traceback:
            show_stack(trace.traceback)


def _show_server_log(client: Client, after: int, *, follow: bool, errors: bool, as_json: bool) -> None:
    while True:
        page = client.server_log(after)
        after = page.next
        for line in page.lines:
            if errors and line.level not in ("error", "critical"):
                continue
            if as_json:
                sys.stdout.write(line.model_dump_json() + "\n")
                sys.stdout.flush()
            else:
                _print_log_line(line)
        if not follow:
            return
        time.sleep(FOLLOW_SECONDS)


def _print_log_line(line: api.ServerLogLine) -> None:
    style = {"error": "red", "critical": "red", "warning": "yellow"}.get(line.level, "dim")
    about = " ".join(each for each in (line.thread, line.call, line.tool) if each)
    print_line(
        Text.assemble(
            (f"{clean(line.ts[11:23])}  ", "dim"),
            (f"{line.level:<8} ", style),
            one_line(line.event),
            (f"  {clean(about)}", "dim"),
        )
    )
    if line.exception:
        show_stack(line.exception)


def _stored(thread: Thread, after: int) -> Iterator[Event]:
    while page := thread.stored_events(after, PAGE):
        yield from page
        after = page[-1].seq or after
