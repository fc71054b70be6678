"""What a middleware brings besides its hooks: routes of the API, commands of `agency`, and panels of the dashboard.

    class Notes(Middleware):
        name = "notes"
        extension = Extension(
            routes=(Route("GET", "notes", list_notes), Route("POST", "notes", add_note, body=Note, role="operator")),
            commands=(Command("add", "POST notes"),),
            panels=(Panel("notes", "Notes", "notes", show="table", actions=(Action("Add", "POST notes"),)),),
        )

The one idea: only routes are code. Commands and panels are data that name routes, so the command and the page can offer
what they have never seen, and run nothing that a server sends them. A route is below its own agency and middleware
(`/agency/{agencyId}/x/{name}/…`), so it can shadow nothing, and it needs a credential with its role there, unless it is
a webhook, which verifies each request itself. This module must never learn how routes are served.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, get_args

from pydantic import BaseModel, JsonValue, ValidationError

from agency.api.extensions import (
    ExtensionAction,
    ExtensionCommand,
    ExtensionInfo,
    ExtensionPanel,
    ExtensionRoute,
    Method,
    RouteRole,
    Show,
)
from agency.errors import DefinitionError, InvalidInput
from agency.secrets import Declared
from agency.wire import explain, read_json

if TYPE_CHECKING:
    from agency.client import AsyncAgency

AnyModel = TypeVar("AnyModel", bound=BaseModel)

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SEGMENT = re.compile(r"[a-zA-Z0-9_.-]+|\{[a-z_]+\}")
_NAMES = re.compile(r"\{([a-z_]+)\}")
_TAKEN = frozenset(("agency_id", "body", "principal", "request"))

OPTIONS = frozenset(("agency", "as-json", "data-dir", "help", "json", "url"))
"""What every command has."""


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """A request to a route of an extension."""

    agency: AsyncAgency
    """The agency that it is about, with the rights of the caller: threads, shelves and whatever else clients can do.
    It answers requests; it does not follow live events."""
    secrets: Declared
    names: Mapping[str, str] = field(default_factory=dict)
    """The values of the names in the route's path."""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """In small letters, without credentials."""
    content: bytes = b""
    """The body as it came, for what is signed."""

    @property
    def body(self) -> JsonValue:
        """As JSON; None if it is empty."""
        try:
            return read_json(self.content.decode()) if self.content else None
        except ValueError as error:
            raise InvalidInput(f"the body is not valid JSON: {error}") from error

    def secret(self, name: str) -> str:
        """The value, now, of a secret that the middleware declares."""
        return self.secrets.value(name)

    def read(self, model: type[AnyModel]) -> AnyModel:
        """The body as what the route takes."""
        try:
            return model.model_validate_json(self.content)
        except ValidationError as error:
            raise InvalidInput(explain(error)) from error


Handle = Callable[[RouteRequest], Awaitable[JsonValue | BaseModel]]
Verify = Callable[[RouteRequest], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Route:
    """An address of the API. What `handle` returns is the answer, as JSON; errors of `agency.errors` are refusals.

    `path` is below the extension's own, as in `notes/{note_id}`. A client needs a credential with the `role` in the
    agency: if none is given, a viewer's for GET, and an operator's for whatever may change something. A webhook has
    none: `verify` says of each request whether it is genuine, and then it acts with the `role`. The docstring of
    `handle` is the description.
    """

    method: Method
    path: str
    handle: Handle
    body: type[BaseModel] | None = None
    role: RouteRole | None = None
    verify: Verify | None = None

    @property
    def needed(self) -> RouteRole:
        """The role, given or not."""
        return self.role or ("viewer" if self.method == "GET" else "operator")

    @property
    def address(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(_NAMES.findall(self.path))

    def info(self) -> ExtensionRoute:
        return ExtensionRoute(
            method=self.method,
            path=self.path,
            role=self.needed,
            webhook=self.verify is not None,
            description=inspect.getdoc(self.handle) or "",
            body=None if self.body is None else self.body.model_json_schema(),
        )


@dataclass(frozen=True, slots=True)
class Command:
    """`agency <middleware> <name>`: a request to a route, as in `POST notes`. Names in the path are its arguments,
    fields of the body its options."""

    name: str
    route: str
    show: Show = "facts"


@dataclass(frozen=True, slots=True)
class Action:
    """A button: a request to a route. Names in the path are fields of the row that it stands in; fields of the body are
    asked for in a form. With `confirm`, that is asked first."""

    label: str
    route: str
    confirm: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A page of the agency in the dashboard: what a GET route answers, and what can be done about it. `columns` are the
    fields that a table shows, all of them unless given."""

    name: str
    title: str
    reads: str
    show: Show = "table"
    columns: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True)
class Extension:
    """The routes, commands and panels of a middleware, as its attribute `extension`. What does not fit together raises
    `DefinitionError` where it is made."""

    routes: tuple[Route, ...]
    commands: tuple[Command, ...] = ()
    panels: tuple[Panel, ...] = ()

    def __post_init__(self) -> None:
        for wrong in self._wrong():
            raise DefinitionError(f"extension: {wrong}")

    def route(self, address: str) -> Route:
        """A route by its method and path, as in `POST notes`."""
        for each in self.routes:
            if each.address == address:
                return each
        known = ", ".join(each.address for each in self.routes)
        raise DefinitionError(f"extension: there is no route {address!r}; there are: {known}")

    def info(self, name: str) -> ExtensionInfo:
        """The extension of the middleware of this name, for clients."""
        return ExtensionInfo(
            name=name,
            routes=tuple(each.info() for each in self.routes),
            commands=tuple(
                ExtensionCommand(name=each.name, show=each.show, route=self.route(each.route).info())
                for each in self.commands
            ),
            panels=tuple(self._panel(each) for each in self.panels),
        )

    def _panel(self, panel: Panel) -> ExtensionPanel:
        actions = [
            ExtensionAction(label=each.label, confirm=each.confirm, route=self.route(each.route).info())
            for each in panel.actions
        ]
        return ExtensionPanel(
            name=panel.name,
            title=panel.title,
            show=panel.show,
            columns=panel.columns,
            reads=self.route(f"GET {panel.reads}").info(),
            actions=tuple(actions),
        )

    def _wrong(self) -> Iterator[str]:
        for route in self.routes:
            yield from _wrong_route(route)
        yield from _twice("route", [_NAMES.sub("{}", each.address) for each in self.routes])
        yield from _twice("command", [each.name for each in self.commands])
        yield from _twice("panel", [each.name for each in self.panels])
        for name in (*(each.name for each in self.commands), *(each.name for each in self.panels)):
            if not _NAME.fullmatch(name):
                yield f"a name has 1 to 64 letters, digits, '-' and '_', not {name!r}"
        actions = (action.route for panel in self.panels for action in panel.actions)
        for used in (*(each.route for each in self.commands), *actions):
            if self.route(used).verify is not None:
                yield f"{used} is a webhook, which people cannot call"
        for command in self.commands:
            yield from _wrong_command(command, self.route(command.route).info())
        for panel in self.panels:
            if self.route(f"GET {panel.reads}").names:
                yield f"panel {panel.name!r} reads {panel.reads!r}, whose names have no values there"
            for action in panel.actions:
                if panel.show != "table" and self.route(action.route).names:
                    yield f"action {action.label!r} of panel {panel.name!r} needs a row, and only a table has rows"


def _wrong_route(route: Route) -> Iterator[str]:
    where = f"route {route.address!r}"
    if route.method not in get_args(Method):
        yield f"{where}: a method is one of {', '.join(get_args(Method))}"
    if not all(_SEGMENT.fullmatch(part) and part.strip(".") for part in route.path.split("/")):
        yield f"{where}: a path is like notes/{{note_id}}, without a slash at its beginning or end"
    if len(set(route.names)) < len(route.names) or _TAKEN.intersection(route.names):
        yield f"{where}: names in a path are used once, and are none of {', '.join(sorted(_TAKEN))}"
    if route.needed not in get_args(RouteRole):
        yield f"{where}: a role is one of {', '.join(get_args(RouteRole))}"
    if route.body is not None and route.method in ("GET", "DELETE"):
        yield f"{where}: {route.method} has no body"
    for function in (route.handle, route.verify):
        if function is not None and not inspect.iscoroutinefunction(function):
            yield f"{where}: {getattr(function, '__name__', function)!r} must be async"


def option_of(name: str) -> str:
    """A field of a body as an option of a command: `dueAt` is `due-at`."""
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", name).lower()).strip("-")


def _wrong_command(command: Command, route: ExtensionRoute) -> Iterator[str]:
    """Every command says by options which server and agency it is for: one of its own would go to another server."""
    fields = (route.body or {}).get("properties")
    options = [option_of(each) for each in (*_NAMES.findall(route.path), *(fields if isinstance(fields, dict) else ()))]
    for name in sorted(OPTIONS.intersection(options)):
        yield f"command {command.name!r}: `--{name}` is an option of every command; call what its route takes otherwise"
    yield from _twice(f"option of command {command.name!r}:", options)


def _twice(what: str, names: list[str]) -> Iterator[str]:
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"there is more than one {what} {name!r}"
