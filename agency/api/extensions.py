"""What middleware bring, as clients see it: enough to offer its commands and panels without knowing them."""

from __future__ import annotations

from typing import Literal

from agency.json_schema import Schema
from agency.wire import Wire

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
RouteRole = Literal["viewer", "operator", "admin"]
Show = Literal["table", "facts", "markdown"]
"""How an answer is shown: a list of objects as a table, an object as its names and values, text as Markdown."""


class ExtensionRoute(Wire):
    method: Method
    path: str
    """Below `/agency/{agencyId}/x/{name}/`, with names in braces."""
    role: RouteRole
    webhook: bool
    """It needs no credential, and verifies each request itself."""
    description: str
    body: Schema | None
    """The JSON schema of its body."""


class ExtensionCommand(Wire):
    name: str
    show: Show
    route: ExtensionRoute


class ExtensionAction(Wire):
    label: str
    confirm: str
    """What to ask first; empty if nothing."""
    route: ExtensionRoute


class ExtensionPanel(Wire):
    name: str
    title: str
    show: Show
    columns: tuple[str, ...]
    reads: ExtensionRoute
    actions: tuple[ExtensionAction, ...]


class ExtensionInfo(Wire):
    """What a middleware brings."""

    name: str
    routes: tuple[ExtensionRoute, ...]
    commands: tuple[ExtensionCommand, ...]
    panels: tuple[ExtensionPanel, ...]


class ExtensionList(Wire):
    extensions: tuple[ExtensionInfo, ...]
