"""The gateway inside of another program: an ASGI app for any server, alone or mounted in another app.

The one idea: making it does nothing. Hosts import the module that exports, too, so settings are read and the
installation is joined when a server begins the app's lifespan or, if none does, with the first request. The app never
touches what belongs to the program around it: its logging, its signals, its address.
"""

from __future__ import annotations

import asyncio
import sys
import sysconfig
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from agency import AgentSystem
from agency.define.export import AsgiMessage, Exported, Receive, Send
from agency.errors import AgencyError, DefinitionError, Unavailable

if TYPE_CHECKING:
    from fastapi import FastAPI

    from actors import Settings
    from dashboard.gateway.settings import GatewaySettings

DENIAL = "websocket.http.response"
"""The extension by which a socket is refused with an HTTP answer. Some servers do not have it."""

CLOSED = {401: 4401, 404: 4404}
"""How a refused socket is closed where it cannot be answered: as live sockets are."""


def export(system: AgentSystem, given: Mapping[str, object]) -> Exported:
    made = EmbeddedGateway(system, given)
    return Exported(handler=made, lifespan=made.lifespan)


class EmbeddedGateway:
    """A gateway that another program's server runs."""

    def __init__(self, system: AgentSystem, given: Mapping[str, object]) -> None:
        self._system = system
        self._given = dict(given)
        self._app: FastAPI | None = None
        self._joining: asyncio.Task[FastAPI] | None = None

    async def __call__(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] == "websocket" and DENIAL not in (scope.get("extensions") or {}):
            scope, send = _with_denial(scope, send)
        try:
            app = await self._joined()
        except Unavailable as error:
            from dashboard.gateway.problems import as_problem

            await as_problem(error)(scope, receive, send)
            return
        await app(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        await self._joined()
        try:
            yield
        finally:
            await self._leave()

    async def _live(self, receive: Receive, send: Send) -> None:
        """The lifespan, as servers tell of it."""
        await receive()
        try:
            await self._joined()
        except AgencyError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._leave()
        await send({"type": "lifespan.shutdown.complete"})

    async def _joined(self) -> FastAPI:
        """The app, once the installation is joined. Attempts go on if the request that began one is canceled."""
        if self._joining is None:
            self._joining = asyncio.create_task(self._join())
        joining = self._joining
        try:
            return await asyncio.shield(joining)
        except Exception:
            if self._joining is joining:  # the next request tries again, unless one has begun to
                self._joining = None
            raise

    async def _join(self) -> FastAPI:
        from dashboard.gateway.app import create_app
        from dashboard.gateway.joining import join
        from dashboard.gateway.warm_up import rehearse

        installation, settings = _settings(self._system, self._given)
        if self._app is None:
            self._app = create_app(settings, self._system)
        self._app.state.cluster = await join(installation)
        await rehearse(self._app)
        return self._app

    async def _leave(self) -> None:
        joining, self._joining = self._joining, None
        if joining is not None:
            app = await joining
            cluster, app.state.cluster = app.state.cluster, None
            await cluster.close()


def _with_denial(scope: AsgiMessage, send: Send) -> tuple[AsgiMessage, Send]:
    """For a server that cannot answer a socket with HTTP: close it instead."""

    async def closing(message: AsgiMessage) -> None:
        if message["type"] == f"{DENIAL}.start":
            await send({"type": "websocket.close", "code": CLOSED.get(message["status"], 1008)})
        elif message["type"] != f"{DENIAL}.body":
            await send(message)

    return {**scope, "extensions": {**(scope.get("extensions") or {}), DENIAL: {}}}, closing


def _settings(system: AgentSystem, given: Mapping[str, object]) -> tuple[Settings, GatewaySettings]:
    from actors.settings import Settings, settings
    from dashboard.gateway.settings import GatewaySettings, gateway_settings

    theirs = GatewaySettings.model_fields.keys() - {"host", "port"}  # the server around it has those
    ours = Settings.model_fields.keys()
    if unknown := sorted(given.keys() - theirs - ours):
        raise DefinitionError(f"export() has no settings {unknown}; there are {sorted(theirs | ours)}")
    found = {} if "system" in given else _place(system)
    installation = settings(**{**found, **{name: value for name, value in given.items() if name in ours}})
    return installation, gateway_settings(**{name: value for name, value in given.items() if name in theirs})


def _place(system: AgentSystem) -> dict[str, object]:
    """Where hosts find a system: of the modules that have it as a global name, the first that was imported whole, for
    the one that defines it is imported by those that use it. The program itself comes last."""
    for name, module in sorted(sys.modules.items(), key=lambda each: each[0] == "__main__"):
        for attribute, value in [*getattr(module, "__dict__", {}).items()]:
            if value is system and (found := _importable(name, module)) is not None:
                return {"system": f"{found[0]}:{attribute}", "python_path": found[1]}
    raise DefinitionError(
        "hosts cannot import this system: make it a global name of a module, and if it is one, say which by "
        'export(system="package.module:name")'
    )


def _importable(name: str, module: ModuleType) -> tuple[str, tuple[str, ...]] | None:
    """The name by which another process imports a module, and the folder where it finds it."""
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    path = Path(file).absolute()
    if name == "__main__":
        spec = module.__spec__
        name = path.stem if spec is None else spec.name
    depth = name.count(".") + (1 if path.name == "__init__.py" else 0)
    folder = path.parents[depth]
    if folder in (Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("platlib"))):
        return name, ()
    return name, (str(folder),)
