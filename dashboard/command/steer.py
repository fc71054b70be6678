"""`agency invoke`, `settle`, `pause`, `resume`, `retry` and `cancel`: steer a thread's run at a server."""

from __future__ import annotations

import sys
from getpass import getpass
from typing import Annotated

import typer
from pydantic import JsonValue

from agency.define.outside import address_of
from agency.store.draft import When
from agency.wire import read_json
from dashboard.command.terminal.console import AsJson, DataDir, app, err, print_json
from dashboard.command.terminal.targets import AgencyId, ServerUrl, ThreadName, server, the_thread


@app.command()
def invoke(
    thread: ThreadName,
    message: Annotated[str, typer.Argument(help="The message.")],
    when: Annotated[
        When, typer.Option(help="During a run: join it at its next step, start the next run, or interrupt it now.")
    ] = "next_step",
    agency: AgencyId = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Send a message to a thread. It starts a run; during a run, --when says when it is read."""
    with server(url, data_dir) as client:
        found = the_thread(client, thread, agency)
        accepted = found.invoke(message, when=when)
    if as_json:
        print_json(accepted)
    else:
        err.print(f"{accepted.run_id} is {accepted.status}", highlight=False)


@app.command()
def settle(
    result: Annotated[str | None, typer.Argument(help="The result of the call: JSON, or text.")] = None,
    error: Annotated[str | None, typer.Option(help="Fail the call, and tell the model why.")] = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Settle a call that waits for the outside. Its token is read from the standard input, because it is a secret and
    what commands are given as arguments is not."""
    token = getpass("token: ") if sys.stdin.isatty() else sys.stdin.readline()
    agency, thread = address_of(token.strip())
    with server(url, data_dir) as client:
        settled = client.agency(agency).thread(thread).settle(token.strip(), _read(result), error=error)
    if as_json:
        print_json(settled)
    elif settled.settled:
        err.print(f"call {settled.call_id} of {agency}/{thread} is settled", highlight=False)
    else:
        err.print(f"nothing changed: call {settled.call_id} of {agency}/{thread} was {settled.status}", highlight=False)


def _read(result: str | None) -> JsonValue:
    try:
        return None if result is None else read_json(result)
    except ValueError:
        return result


@app.command()
def pause(thread: ThreadName, agency: AgencyId = None, url: ServerUrl = None, data_dir: DataDir = None) -> None:
    """Pause a run. The calls in progress finish, and nothing new begins."""
    with server(url, data_dir) as client:
        found = the_thread(client, thread, agency)
        found.pause()
    err.print(f"{found.agency_id}/{found.id} pauses; `agency resume {found.id}` lets it go on", highlight=False)


@app.command()
def resume(thread: ThreadName, agency: AgencyId = None, url: ServerUrl = None, data_dir: DataDir = None) -> None:
    """Resume a run that was paused with `agency pause`."""
    with server(url, data_dir) as client:
        found = the_thread(client, thread, agency)
        found.resume()
    err.print(f"{found.agency_id}/{found.id} goes on", highlight=False)


@app.command()
def retry(
    thread: ThreadName,
    agency: AgencyId = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Try a failed run again, from where it failed. What it had done is kept."""
    with server(url, data_dir) as client:
        accepted = the_thread(client, thread, agency).retry()
    if as_json:
        print_json(accepted)
    else:
        err.print(f"{accepted.run_id} is {accepted.status}", highlight=False)


@app.command()
def cancel(thread: ThreadName, agency: AgencyId = None, url: ServerUrl = None, data_dir: DataDir = None) -> None:
    """Cancel a thread's run, and the runs of its subagents."""
    with server(url, data_dir) as client:
        found = the_thread(client, thread, agency)
        found.cancel()
    err.print(f"{found.agency_id}/{found.id} has no run in progress any more", highlight=False)
