"""`agency providers`: where an agency's models are, besides the installation's providers."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import ValidationError

from agency.api.bodies import ProviderPage
from agency.errors import InvalidInput
from agency.models.providers.entry import ApiName, Provider
from agency.wire import explain
from dashboard.command.terminal.console import AsJson, DataDir, app, err, out, print_json, print_table
from dashboard.command.terminal.rendering import moment
from dashboard.command.terminal.targets import OneAgency, ServerUrl, server, the_agency

providers = typer.Typer(help="Manage an agency's own model providers.")
app.add_typer(providers, name="providers")


@providers.callback(invoke_without_command=True)
def list_providers(
    ctx: typer.Context,
    agency: OneAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the model providers that an agency can use, and where each is defined."""
    if ctx.invoked_subcommand is not None:
        return
    with server(url, data_dir) as client:
        found = tuple(the_agency(client, agency).providers())
    if as_json:
        print_json(ProviderPage(providers=found))
        return
    rows = []
    for each in found:
        entry = each.entry
        where = "" if entry is None else entry.base_url or entry.api
        changed, set_by = moment(each.updated_at or ""), each.set_by or ""
        rows.append((each.name, each.source, where, (entry and entry.key) or "", changed, set_by))
    print_table(("provider", "whose", "where", "key", "changed", "set by"), rows)


@providers.command("put")
def put_provider(
    name: Annotated[str, typer.Argument(help="The word before the colon in model names.", show_default=False)],
    api: Annotated[ApiName, typer.Option(help="The API that the provider speaks.")] = "openai",
    base_url: Annotated[
        str | None, typer.Option(help="The provider's address, such as https://host/v1.", show_default=False)
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="A reference to its key, env:AGENCY_KEY_…; never the key itself.", show_default=False),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header for every request.", show_default=False)
    ] = None,
    priced_as: Annotated[
        str | None,
        typer.Option(help="The provider whose published prices apply, such as openrouter.", show_default=False),
    ] = None,
    agency: OneAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Add a provider to an agency, or replace one. It takes effect at once.

    [dim]With an agency's key, it can use the keys that the server's operator allows it, and public addresses.[/]
    """
    headers = dict(_header(each) for each in header or ())
    given = {"api": api, "base_url": base_url, "key": key, "headers": headers, "priced_as": priced_as}
    try:
        entry = Provider.model_validate(given)
    except ValidationError as error:
        raise InvalidInput(explain(error)) from None
    with server(url, data_dir) as client:
        made = the_agency(client, agency).put_provider(name, entry)
    if as_json:
        print_json(made)
    else:
        out.print(f"{made.name}:… is at {base_url or api}", highlight=False, markup=False)


def _header(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals:
        raise InvalidInput("a header is given as NAME=VALUE")
    return name, value


@providers.command("delete")
def delete_provider(
    name: Annotated[str, typer.Argument(help="The provider's name.", show_default=False)],
    agency: OneAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Delete a provider of an agency. The installation's provider with this name applies again."""
    with server(url, data_dir) as client:
        the_agency(client, agency).delete_provider(name)
    err.print(f"deleted {name}", highlight=False, markup=False)
