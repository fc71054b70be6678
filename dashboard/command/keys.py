"""`agency keys`: keys to one agency, for clients that must not have the installation's secret."""

from __future__ import annotations

from typing import Annotated

import typer

from agency.api import bodies as api
from agency.api.tenancy import KeyRole
from dashboard.command.terminal.console import AsJson, DataDir, app, err, out, print_json, print_table
from dashboard.command.terminal.rendering import clean, moment
from dashboard.command.terminal.targets import OneAgency, ServerUrl, server, the_agency

keys = typer.Typer(help="Manage an agency's keys, for clients that must not have the secret.")
app.add_typer(keys, name="keys")


@keys.callback(invoke_without_command=True)
def list_keys(
    ctx: typer.Context,
    agency: OneAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List an agency's keys, without their secret texts."""
    if ctx.invoked_subcommand is not None:
        return
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
    name: Annotated[str, typer.Argument(help="A name that says what the key is for.", show_default=False)],
    role: Annotated[
        KeyRole, typer.Option(help="What the key allows: to read, to run threads, or everything.")
    ] = "operator",
    agency: OneAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Create a key, and print its text, which cannot be shown again."""
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
    agency: OneAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Revoke a key at once."""
    with server(url, data_dir) as client:
        the_agency(client, agency).revoke_key(key)
    err.print(f"revoked {key}", highlight=False, markup=False)
