"""`agency agencies`: list agencies, or create one."""

from __future__ import annotations

from typing import Annotated

import typer

from agency.api import bodies as api
from dashboard.command.terminal.console import AsJson, DataDir, app, err, print_json, print_table
from dashboard.command.terminal.rendering import clean, moment
from dashboard.command.terminal.targets import ServerUrl, server

DAMAGED = "(damaged: restore its file from a backup, or delete it)"


@app.command()
def agencies(
    create: Annotated[str | None, typer.Option(metavar="NAME", help="Create an agency with this name.")] = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List agencies, or create one."""
    with server(url, data_dir) as client:
        if create is not None:
            found = [client.create_agency(create).info()]
        else:
            found = [each.summary for each in client.agencies()]
    if as_json:
        print_json(api.AgencyPage(agencies=tuple(found)))
        return
    if not found:
        err.print("there are no agencies; --create NAME makes one")
    rows = [(each.id, DAMAGED if each.damaged else clean(each.name), moment(each.created_at)) for each in found]
    print_table(("agency", "name", "made"), rows)
