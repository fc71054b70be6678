"""`agency usage` and `budget`: what an agency uses, and what it may use; `providers`: where its models are."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import ValidationError

from agency.api.bodies import ProviderPage
from agency.api.tenancy import AgencyUsage, Use
from agency.errors import InvalidInput
from agency.models.providers.entry import Api, Provider
from agency.wire import explain
from dashboard.command.console import AsJson, DataDir, app, err, out, print_json, print_table
from dashboard.command.finding import AgencyId, ServerUrl, server, the_agency
from dashboard.command.shown import dollars, moment
from dashboard.command.tenants import OfAgency

providers = typer.Typer(help="Where an agency's models are, besides the installation's.", no_args_is_help=True)
app.add_typer(providers, name="providers")


@app.command()
def usage(agency: AgencyId = None, url: ServerUrl = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """What an agency's threads have used, those that were deleted too, and what they may use."""
    with server(url, data_dir) as client:
        _tell(the_agency(client, agency).usage(), as_json=as_json)


@app.command()
def budget(
    agency: AgencyId = None,
    turns: Annotated[int | None, typer.Option(min=0, help="Turns of all runs.", show_default=False)] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Time at work.", show_default=False)] = None,
    tokens: Annotated[int | None, typer.Option(min=0, help="In and out.", show_default=False)] = None,
    cost_usd: Annotated[float | None, typer.Option(min=0, help="US dollars.", show_default=False)] = None,
    unlimited: Annotated[bool, typer.Option("--unlimited", help="Begin with no limits at all.")] = False,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Say what all of an agency's threads may use together. What is not named stays as it was.

    [dim]Runs that have used it up are paused, and go on by themselves when there is more.[/]
    """
    given = {"turns": turns, "time_ms": _ms(minutes), "tokens": tokens, "cost_usd": cost_usd}
    wanted = {name: value for name, value in given.items() if value is not None}
    if not (wanted or unlimited):
        raise InvalidInput("say how much: --turns, --minutes, --tokens, --cost-usd, or --unlimited")
    with server(url, data_dir) as client:
        found = the_agency(client, agency)
        before = {} if unlimited else found.info().budget.model_dump(by_alias=False)
        _tell(found.set_budget(**{**before, **wanted}), as_json=as_json)


def _ms(minutes: float | None) -> int | None:
    return None if minutes is None else round(60_000 * minutes)


def _tell(found: AgencyUsage, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    limits = found.budget
    minutes = None if limits.time_ms is None else f"{limits.time_ms / 60_000:g}"
    money = None if limits.cost_usd is None else dollars(limits.cost_usd)
    most = (_count(limits.turns), minutes, _count(limits.tokens), money)
    rows = zip(("turns", "minutes", "tokens", "cost"), _row(found), _row(found.children), most, strict=True)
    print_table(("", "used", "by subagents", "budget"), [(a, b, c, d or "no limit") for a, b, c, d in rows])
    if found.exhausted is not None:
        err.print(f"[red]{found.exhausted}[/] runs wait for a larger budget", highlight=False)


def _row(use: Use) -> tuple[str, str, str, str]:
    return f"{use.turns:,}", f"{use.active_ms / 60_000:.1f}", f"{use.tokens_used.total:,}", dollars(use.cost_usd)


def _count(most: int | None) -> str | None:
    return None if most is None else f"{most:,}"


# Providers.


@providers.command("list")
def list_providers(
    agency: OfAgency = None, url: ServerUrl = None, data_dir: DataDir = None, as_json: AsJson = False
) -> None:
    """List the providers that models can be named with, and whose they are."""
    with server(url, data_dir) as client:
        found = tuple(the_agency(client, agency).providers())
    if as_json:
        print_json(ProviderPage(providers=found))
        return
    rows = []
    for each in found:
        entry = each.entry
        where = "" if entry is None else entry.base_url or entry.api
        rows.append((each.name, each.source, where, (entry and entry.key) or "", moment(each.updated_at or "")))
    print_table(("provider", "whose", "where", "key", "changed"), rows)


@providers.command("put")
def put_provider(
    name: Annotated[str, typer.Argument(help="The word before the colon in its models' names.", show_default=False)],
    api: Annotated[Api, typer.Option(help="Which API it speaks.")] = "openai",
    base_url: Annotated[
        str | None, typer.Option(help="Its address, as in https://host/v1.", show_default=False)
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Where its key is: env:AGENCY_KEY_…, never the key itself.", show_default=False)
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Sent with every request.", show_default=False)
    ] = None,
    priced_as: Annotated[
        str | None, typer.Option(help="Whose published prices count, as in openrouter.", show_default=False)
    ] = None,
    agency: OfAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Add a provider to an agency, or put another in its place; it counts at once."""
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
    agency: OfAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Remove one of an agency's own; one of the installation's with this name counts again."""
    with server(url, data_dir) as client:
        the_agency(client, agency).delete_provider(name)
    err.print(f"deleted {name}", highlight=False, markup=False)
