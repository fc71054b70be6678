"""What a command is about: its data folder, its providers, its server, its agency, its thread.

Options and environment variables name them; otherwise a command takes the only one there is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from pydantic import TypeAdapter, ValidationError

from agency.errors import DefinitionError, Forbidden, InvalidInput, NotFound
from agency.models.providers.entry import Provider, ProviderName
from agency.wire import explain
from dashboard.gateway.discovery import running_gateways

if TYPE_CHECKING:
    from agency.api.tenancy import AgencyInfo
    from agency.client import Agency, Client, Thread

Item = TypeVar("Item")

PATIENCE_SECONDS = 1.0
"""A person waits at the terminal, so a command reports soon that a server does not answer."""

ServerUrl = Annotated[
    str | None,
    typer.Option(
        "--url",
        help="The server's address. [dim]Default: AGENCY_URL, else the data folder's, else http://127.0.0.1:8000[/]",
        show_default=False,
    ),
]
AgencyId = Annotated[
    str | None, typer.Option("--agency", help="The agency's id. [dim]Default: all agencies[/]", show_default=False)
]
OneAgency = Annotated[
    str | None, typer.Option("--agency", help="The agency's id. [dim]Default: the only agency[/]", show_default=False)
]
ThreadName = Annotated[
    str, typer.Argument(metavar="THREAD", help="A thread's id, or [bold]agency/thread[/].", show_default=False)
]


def data_folder(given: Path | None) -> Path:
    return (given or Path(os.environ.get("AGENCY_DATA_DIR") or "data")).expanduser().absolute()


_PROVIDERS = TypeAdapter(dict[ProviderName, Provider])


def configured_providers() -> dict[str, Provider]:
    """The providers of AGENCY_PROVIDERS, as an installation reads them; without Ray, which takes a second to import."""
    try:
        return _PROVIDERS.validate_json(os.environ.get("AGENCY_PROVIDERS") or "{}")
    except ValidationError as error:
        raise DefinitionError(f"AGENCY_PROVIDERS: {explain(error)}") from None  # pydantic's message quotes the input


def address(url: str | None, data_dir: Path | None) -> str | None:
    """The server's address from options, environment or data folder; None leaves the default to the client."""
    if url or os.environ.get("AGENCY_URL"):
        return url or os.environ["AGENCY_URL"]
    found = next((note.url for note in running_gateways(data_folder(data_dir))), None)
    if found is None and (data_dir is not None or os.environ.get("AGENCY_DATA_DIR")):
        raise NotFound(f"no server runs for {data_folder(data_dir)}: `agency serve` starts one, --url names another")
    return found


def server(url: str | None, data_dir: Path | None) -> Client:
    from agency.client import Client

    return Client(address(url, data_dir), patience=PATIENCE_SECONDS)


def agencies(client: Client, agency_id: str | None) -> list[AgencyInfo]:
    """The agency that was named, or all whose files can be read."""
    if agency_id is not None:
        return [client.agency(agency_id).info()]
    return [each.summary for each in client.agencies() if not each.summary.damaged]


def the_agency(client: Client, agency_id: str | None) -> Agency:
    """The agency that was named, or the only one."""
    return client.agency(agency_id or only(agencies(client, None), "an agency", "--agency", lambda each: each.id).id)


def the_thread(client: Client, name: str, agency_id: str | None) -> Thread:
    """The thread with this name, which is an id or `agency/thread`; `NotFound` if there is none."""
    agency, slash, thread = name.rpartition("/")
    if slash and agency_id not in (None, agency):
        raise InvalidInput(f"{name} is not in agency {agency_id!r}")
    if named := agency or agency_id:
        found = client.agency(named).thread(thread)
        found.info()  # raises `NotFound` if there is none
        return found
    for each in agencies(client, None):
        found = client.agency(each.id).thread(thread)
        if _exists(found):
            return found
    raise NotFound(f"there is no thread {thread!r} in any agency; `agency threads` lists what there is")


def _exists(thread: Thread) -> bool:
    try:
        thread.info()
    except (NotFound, Forbidden):
        return False
    return True


def only(found: list[Item], what: str, option: str, name: Callable[[Item], str]) -> Item:
    """The only item; with several, an error lists what `option` can name."""
    if len(found) == 1:
        return found[0]
    known = ", ".join(name(each) for each in found)
    raise InvalidInput(f"name {what} with {option}; there are {known}" if found else f"there is no {what.split()[-1]}")
