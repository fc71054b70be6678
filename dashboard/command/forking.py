"""`agency fork`: a new thread that begins as another one was."""

from __future__ import annotations

from typing import Annotated

import typer

from dashboard.command.console import AsJson, DataDir, app, err, out, print_json
from dashboard.command.finding import AgencyId, ServerUrl, ThreadName, server, the_thread


@app.command()
def fork(
    thread: ThreadName,
    message: Annotated[
        str | None, typer.Argument(metavar="[MESSAGE]", help="What it goes on with at once; without, it waits.")
    ] = None,
    after: Annotated[
        int | None,
        typer.Option(min=1, metavar="SEQ", help="The last event that it has, as `agency logs` numbers them."),
    ] = None,
    before: Annotated[
        str | None, typer.Option(metavar="MESSAGE", help="The id of a message: it has what came before that one.")
    ] = None,
    agency: AgencyId = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make a new thread that begins as this one was: its messages, files and todos. Without options, as it is now."""
    with server(url, data_dir) as client:
        found = the_thread(client, thread, agency)
        made = found.fork(() if message is None else message, after_seq=after, before_message=before).info()
    if as_json:
        print_json(made)
        return
    assert made.forked_from is not None
    err.print(f"forked {found.agency_id}/{found.id} after event {made.forked_from.seq}:", highlight=False)
    out.print(f"{made.agency_id}/{made.id}", highlight=False, soft_wrap=True, markup=False)
