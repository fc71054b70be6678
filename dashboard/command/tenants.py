"""`agency agencies` and `keys`: whose threads there are, and who may come to them."""

from __future__ import annotations

from typing import Annotated

import typer

from agency.api import bodies as api
from agency.api.tenancy import KeyRole
from dashboard.command.console import AsJson, DataDir, app, err, out, print_json, print_table
from dashboard.command.finding import ServerUrl, server, the_agency
from dashboard.command.shown import clean, moment

keys = typer.Typer(help="Keys to one agency, for clients that shall not have the secret.", no_args_is_help=True)
app.add_typer(keys, name="keys")

OfAgency = Annotated[
    str | None, typer.Option("--agency", help="The agency's id. [dim]The only one unless given[/]", show_default=False)
]


@app.command()
def agencies(
    create: Annotated[str | None, typer.Option(metavar="NAME", help="Make a new one.")] = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List agencies, or make one."""
    with server(url, data_dir) as client:
        found = [client.create_agency(create).info()] if create is not None else list(client.agencies())
    if as_json:
        print_json(api.AgencyPage(agencies=tuple(found)))
        return
    if not found:
        err.print("there are no agencies; --create NAME makes one")
    print_table(("agency", "name", "made"), [(each.id, clean(each.name), moment(each.created_at)) for each in found])


@keys.command("list")
def list_keys(
    agency: OfAgency = None, url: ServerUrl = None, data_dir: DataDir = None, as_json: AsJson = False
) -> None:
    """List an agency's keys, without what has to be shown."""
    with server(url, data_dir) as client:
        found = tuple(the_agency(client, agency).keys())
    if as_json:
        print_json(api.KeyPage(keys=found))
        return
    if not found:
        err.print("there are no keys; `agency keys create` makes one")
    rows = [(each.id, clean(each.name), each.role, moment(each.created_at)) for each in found]
    print_table(("key", "name", "role", "made"), rows)


@keys.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="What it is for.", show_default=False)],
    role: Annotated[KeyRole, typer.Option(help="What its holder may do: look, work, or everything.")] = "operator",
    agency: OfAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. Its text is printed, and is not to be had a second time."""
    with server(url, data_dir) as client:
        made = the_agency(client, agency).create_key(name, role)
    if as_json:
        print_json(made)
        return
    err.print(f"key {made.id}, {made.role}; keep this, it is not shown again:", highlight=False)
    out.print(made.key, highlight=False, soft_wrap=True, markup=False)


@keys.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(help="The key's id.", show_default=False)],
    agency: OfAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
) -> None:
    """From now on the key opens nothing."""
    with server(url, data_dir) as client:
        the_agency(client, agency).revoke_key(key)
    err.print(f"revoked {key}", highlight=False, markup=False)
