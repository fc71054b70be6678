"""`agency send`, `pause`, `resume` and `cancel`: what people tell runs at a server; `policy`: what they are asked."""

from __future__ import annotations

import json
from typing import Annotated, cast

import typer
from pydantic import ValidationError

from agency.approvals.rules import Policy
from agency.errors import InvalidInput
from agency.store.draft import When
from agency.wire import explain
from dashboard.command.console import AsJson, DataDir, app, err, print_json
from dashboard.command.finding import AgencyId, ServerUrl, ThreadName, server, the_agency, the_thread

WHEN = {"step": "next_step", "after": "next_run", "now": "now"}


@app.command()
def send(
    thread: ThreadName,
    message: Annotated[str, typer.Argument(help="What to say.")],
    when: Annotated[
        str, typer.Option(help="During a run: [bold]step[/] joins its next step, [bold]after[/] it, or [bold]now[/].")
    ] = "step",
    agency: AgencyId = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Say something to a thread: that starts a run, joins the one in progress, queues for after it or interrupts it."""
    if when not in WHEN:
        raise InvalidInput(f"--when is one of {', '.join(WHEN)}, not {when!r}")
    with server(url, data_dir) as client:
        found = the_thread(client, thread, agency)
        accepted = found.invoke(message, when=cast(When, WHEN[when]))
    if as_json:
        print_json(accepted)
    else:
        err.print(f"{accepted.run_id} is {accepted.status}", highlight=False)


@app.command()
def pause(thread: ThreadName, agency: AgencyId = None, url: ServerUrl = None, data_dir: DataDir = None) -> None:
    """Have a run wait; what it is doing just now may end."""
    with server(url, data_dir) as client:
        found = the_thread(client, thread, agency)
        found.pause()
    err.print(f"{found.agency_id}/{found.id} pauses; `agency resume {found.id}` lets it go on", highlight=False)


@app.command()
def resume(thread: ThreadName, agency: AgencyId = None, url: ServerUrl = None, data_dir: DataDir = None) -> None:
    """Let a run go on that was paused by hand."""
    with server(url, data_dir) as client:
        found = the_thread(client, thread, agency)
        found.resume()
    err.print(f"{found.agency_id}/{found.id} goes on", highlight=False)


@app.command()
def cancel(thread: ThreadName, agency: AgencyId = None, url: ServerUrl = None, data_dir: DataDir = None) -> None:
    """End a thread's run, with all its subagents."""
    with server(url, data_dir) as client:
        found = the_thread(client, thread, agency)
        found.cancel()
    err.print(f"canceled {found.agency_id}/{found.id}", highlight=False)


@app.command()
def policy(
    rules: Annotated[
        str | None, typer.Option("--set", metavar="JSON", help="The new one: {rules, timeoutMs?, onTimeout?}.")
    ] = None,
    agency: AgencyId = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Show or set which calls people have to approve in an agency, whatever its blueprints say."""
    wanted = None if rules is None else _parsed(rules)
    with server(url, data_dir) as client:
        home = the_agency(client, agency)
        print_json(home.policy() if wanted is None else home.set_policy(wanted))


def _parsed(text: str) -> Policy:
    try:
        return Policy.model_validate(json.loads(text))
    except ValidationError as error:
        raise InvalidInput(f"wrong policy: {explain(error)}") from error
    except ValueError as error:
        raise InvalidInput(f"that is no JSON: {error}") from error
