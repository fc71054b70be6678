"""`agency policy`: which calls an agency wants people to approve."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from pydantic import ValidationError

from agency.approvals.rules import Policy
from agency.errors import InvalidInput
from agency.wire import explain
from dashboard.command.terminal.console import DataDir, app, print_json
from dashboard.command.terminal.targets import AgencyId, ServerUrl, server, the_agency


@app.command()
def policy(
    rules: Annotated[
        str | None, typer.Option("--set", metavar="JSON", help="The new policy: {rules, timeoutMs?, onTimeout?}.")
    ] = None,
    layers: Annotated[
        bool, typer.Option("--layers", help="Show what the server's owner and the agency have each set.")
    ] = False,
    agency: AgencyId = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Show or set which calls people must approve in an agency, in addition to what its blueprints say.

    [dim]The policy of the server's owner holds whatever an agency's key sets. Shown is what is in effect: the rules of
    the owner, then those of the agency.[/]
    """
    wanted = None if rules is None else _parsed(rules)
    with server(url, data_dir) as client:
        home = the_agency(client, agency)
        if layers:
            print_json(home.layers().policy)
        else:
            print_json(home.policy() if wanted is None else home.set_policy(wanted))


def _parsed(text: str) -> Policy:
    try:
        return Policy.model_validate(json.loads(text))
    except ValidationError as error:
        raise InvalidInput(f"wrong policy: {explain(error)}") from error
    except ValueError as error:
        raise InvalidInput(f"that is no JSON: {error}") from error
