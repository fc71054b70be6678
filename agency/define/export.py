"""Exporting a system: what another program gets to serve it, and how that is found.

The one idea: the library knows the shape of what is exported and never who makes it. The gateway registers itself under
an entry point, as the stock middleware do, and is imported when a system is exported and not before. Making an
`Exported` starts nothing, because hosts import the module that exports, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol

from agency.errors import DefinitionError
from agency.own_names import check_names

if TYPE_CHECKING:
    from agency.define.system import AgentSystem

GROUP = "agency.export"

AsgiMessage = MutableMapping[str, Any]  # as ASGI has it
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
AsgiApp = Callable[[AsgiMessage, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Exported:
    """A system as a program that serves it needs it."""

    handler: AsgiApp
    """An ASGI app. It joins the installation when a server begins its lifespan; if none does, with the first request,
    which waits for that."""
    lifespan: Callable[[object], AbstractAsyncContextManager[None]]
    """For the app that `handler` is mounted in, as in `FastAPI(lifespan=exported.lifespan)`: join at the start, and let
    go at the end. Apps do not begin the lifespans of what is mounted in them."""


class Exporter(Protocol):
    def __call__(self, system: AgentSystem, given: Mapping[str, object], /) -> Exported: ...


def load_exporter() -> Exporter:
    """What makes an ASGI app of a system."""
    check_names(names=["dashboard"])
    for entry in entry_points(group=GROUP):
        exporter: Exporter = entry.load()
        return exporter
    raise DefinitionError("no gateway is installed to export to: install the project, as `make setup` does")
