"""`agency usage` and `budget`: what an agency has used, and what it may use."""

from __future__ import annotations

from typing import Annotated

import typer

from agency.api.tenancy import AgencyUsage, Use
from agency.errors import InvalidInput
from dashboard.command.terminal.console import AsJson, DataDir, app, err, print_json, print_table
from dashboard.command.terminal.rendering import dollars
from dashboard.command.terminal.targets import AgencyId, ServerUrl, server, the_agency


@app.command()
def usage(agency: AgencyId = None, url: ServerUrl = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show what an agency's threads have used, deleted ones included, and what they may use."""
    with server(url, data_dir) as client:
        _tell(the_agency(client, agency).usage(), as_json=as_json)


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

    [dim]When the budget is used up, runs pause. They continue by themselves when you raise it.[/]
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
