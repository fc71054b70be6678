"""`agency usage`, `budget` and `limits`: what an agency has used, and what it and each of its runs may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agency.api.tenancy import AgencyLayers, AgencyUsage, Budget, Use
from agency.errors import Forbidden, InvalidInput
from agency.turn.state import RunCeiling
from agency.wire import Wire
from dashboard.command.terminal.console import AsJson, DataDir, app, err, print_json, print_table
from dashboard.command.terminal.rendering import dollars
from dashboard.command.terminal.targets import AgencyId, ServerUrl, server, the_agency

if TYPE_CHECKING:
    from agency.client import Agency

PARTS = ("turns", "minutes", "tokens", "cost")


@app.command()
def usage(agency: AgencyId = None, url: ServerUrl = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show what an agency's threads have used, deleted ones included, and what they may use."""
    with server(url, data_dir) as client:
        home = the_agency(client, agency)
        _tell(home.usage(), _layers(home), as_json=as_json)


@app.command()
def budget(
    agency: AgencyId = None,
    turns: Annotated[int | None, typer.Option(min=0, help="Turns of all runs.", show_default=False)] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Minutes at work.", show_default=False)] = None,
    tokens: Annotated[int | None, typer.Option(min=0, help="Tokens, input and output.", show_default=False)] = None,
    cost_usd: Annotated[float | None, typer.Option(min=0, help="US dollars.", show_default=False)] = None,
    unlimited: Annotated[bool, typer.Option("--unlimited", help="Remove all limits first.")] = False,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Set what all threads of an agency may use together. Options that you leave out keep their values.

    [dim]When the budget is used up, runs pause. They continue by themselves when you raise it. What the server's owner
    has set, an agency's key can only make smaller.[/]
    """
    wanted = _wanted(turns=turns, time_ms=_ms(minutes), tokens=tokens, cost_usd=cost_usd)
    if not (wanted or unlimited):
        raise InvalidInput("say how much: --turns, --minutes, --tokens, --cost-usd, or --unlimited")
    with server(url, data_dir) as client:
        home = the_agency(client, agency)
        before = {} if unlimited else _own(home.layers(), "budget")
        _tell(home.set_budget(**{**before, **wanted}), _layers(home), as_json=as_json)


@app.command()
def limits(
    agency: AgencyId = None,
    turns: Annotated[int | None, typer.Option(min=1, help="Turns of a run.", show_default=False)] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Minutes at work.", show_default=False)] = None,
    tokens: Annotated[int | None, typer.Option(min=1, help="Tokens, input and output.", show_default=False)] = None,
    cost_usd: Annotated[float | None, typer.Option(min=0, help="US dollars.", show_default=False)] = None,
    unlimited: Annotated[bool, typer.Option("--unlimited", help="Remove all of them first.")] = False,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Show or set the most that each run of an agency may use, whatever the run itself says.

    [dim]They hold for subagents and schedules, too. What the server's owner has set, an agency's key can only make
    smaller.[/]
    """
    wanted = _wanted(turns=turns, time_ms=_ms(minutes), tokens=tokens, cost_usd=cost_usd)
    with server(url, data_dir) as client:
        home = the_agency(client, agency)
        if wanted or unlimited:
            before = {} if unlimited else _own(home.layers(), "limits")
            home.set_limits(**{**before, **wanted})
        found, layers = home.limits(), _layers(home)
    if as_json:
        print_json(found)
        return
    columns, names = [_most(found)], ["", "of one run"]
    if layers is not None:
        columns += [_most(layers.limits.owner), _most(layers.limits.agency)]
        names += ["the owner's", "the agency's"]
    print_table(tuple(names), list(zip(PARTS, *columns, strict=True)))


def _wanted(**given: float | None) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _own(layers: AgencyLayers, what: Literal["budget", "limits"]) -> dict[str, Any]:
    """What the one who asks has set before."""
    own: Wire = getattr(getattr(layers, what), layers.yours)
    return own.model_dump(by_alias=False)


def _layers(home: Agency) -> AgencyLayers | None:
    """Who has set what; only admins are told."""
    try:
        return home.layers()
    except Forbidden:
        return None


def _ms(minutes: float | None) -> int | None:
    return None if minutes is None else round(60_000 * minutes)


def _tell(found: AgencyUsage, layers: AgencyLayers | None, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    columns, names = [_row(found), _row(found.children), _most(found.budget)], ["", "used", "by subagents", "budget"]
    if layers is not None and (layers.budget.agency.is_set or layers.yours == "agency"):
        columns += [_most(layers.budget.owner), _most(layers.budget.agency)]
        names += ["the owner's", "the agency's"]
    print_table(tuple(names), list(zip(PARTS, *columns, strict=True)))
    if found.exhausted is not None:
        err.print(f"[red]{found.exhausted}[/] runs wait for a larger budget", highlight=False)


def _most(limits: Budget | RunCeiling) -> tuple[str, str, str, str]:
    minutes = None if limits.time_ms is None else f"{limits.time_ms / 60_000:g}"
    money = None if limits.cost_usd is None else dollars(limits.cost_usd)
    turns, minutes, tokens, money = (
        each or "no limit" for each in (_count(limits.turns), minutes, _count(limits.tokens), money)
    )
    return turns, minutes, tokens, money


def _row(use: Use) -> tuple[str, str, str, str]:
    return f"{use.turns:,}", f"{use.active_ms / 60_000:.1f}", f"{use.tokens_used.total:,}", dollars(use.cost_usd)


def _count(most: int | None) -> str | None:
    return None if most is None else f"{most:,}"
