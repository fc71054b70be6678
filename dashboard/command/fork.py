"""`agency fork`: create a thread from an earlier point of another one."""

from __future__ import annotations

from typing import Annotated

import typer

from dashboard.command.terminal.console import AsJson, DataDir, app, err, out, print_json
from dashboard.command.terminal.targets import AgencyId, ServerUrl, ThreadName, server, the_thread


@app.command()
def fork(
    thread: ThreadName,
    message: Annotated[
        str | None,
        typer.Argument(metavar="[MESSAGE]", help="A first message for the fork. [dim]Default: none, and it waits[/]"),
    ] = None,
    after: Annotated[
        int | None,
        typer.Option(min=1, metavar="SEQ", help="The last event of the fork, as numbered by `agency logs`."),
    ] = None,
    before: Annotated[
        str | None, typer.Option(metavar="MESSAGE", help="The id of the first message that the fork leaves out.")
    ] = None,
    agency: AgencyId = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Create a thread with this one's messages, files and todos, as of now or of an earlier event or message."""
    with server(url, data_dir) as client:
        found = the_thread(client, thread, agency)
        made = found.fork(() if message is None else message, after_seq=after, before_message=before).info()
    if as_json:
        print_json(made)
        return
    assert made.forked_from is not None
    err.print(f"forked {found.agency_id}/{found.id} after event {made.forked_from.seq}:", highlight=False)
    out.print(f"{made.agency_id}/{made.id}", highlight=False, soft_wrap=True, markup=False)
