"""Running the gateway: it listens at once, and joins the installation while it already answers (with 503).

If the local Ray dies, this process ends and its keeper starts another one: Ray's client is not reliable after that.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import structlog
import uvicorn

from actors import Cluster, Settings
from actors.cluster import local_ray
from actors.cluster.local_ray import LocalRay
from actors.cluster.ray_watch import LOOK_SECONDS, RayWatch
from actors.file_limit import raise_file_limit
from agency.define.system import AgentSystem
from agency.errors import AgencyError, Unavailable
from dashboard.gateway import keeper
from dashboard.gateway.app import create_app
from dashboard.gateway.connections import (
    ACCEPTED_AT_ONCE,
    Connections,
    HttpConnection,
    SocketConnection,
)
from dashboard.gateway.discovery import announce
from dashboard.gateway.joining import SIGNALS, join
from dashboard.gateway.keeper import Kept
from dashboard.gateway.metrics import CONNECTIONS
from dashboard.gateway.server_log import show_server_log
from dashboard.gateway.server_socket import BACKLOG, url_of
from dashboard.gateway.settings import GatewaySettings
from dashboard.gateway.shares import most_connections
from dashboard.gateway.warm_up import keep_what_is_loaded, rehearse

log = structlog.get_logger(__name__)

KEEP_ALIVE_SECONDS = 75
"""How long a connection without a request stays open. Proxies and clients give up theirs after 60 seconds or less, and
the one that closes must not be the one that is about to be sent a request."""

OnReady = Callable[[Cluster, str], Awaitable[None]]


class _Server(uvicorn.Server):
    """A server that returns after a signal. uvicorn's own raises the signal again when it has stopped."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """asyncio has one number for how many connections wait in the kernel and how many it accepts at once."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(BACKLOG)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        for each in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(each, self.handle_exit, each, None)
        try:
            yield
        finally:
            for each in SIGNALS:
                asyncio.get_running_loop().remove_signal_handler(each)


class Gateway:
    def __init__(self, settings: GatewaySettings, installation: Settings, kept: Kept, system: AgentSystem) -> None:
        raise_file_limit()
        self._installation = installation
        self._kept = kept
        self._app = create_app(settings, system)
        places = Connections(most_connections(settings), settings.slow)
        self._server = _Server(
            uvicorn.Config(
                self._app,
                http=partial(HttpConnection, places),  # type: ignore[arg-type]  # it is only ever called
                ws=SocketConnection,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # `proxies` reads them
                lifespan="off",
                backlog=ACCEPTED_AT_ONCE,
                ws_max_size=64 * 1024,
                ws_per_message_deflate=False,
                timeout_graceful_shutdown=3,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
            )
        )
        CONNECTIONS.set_function(lambda: len(self._server.server_state.connections))
        self._failure: AgencyError | None = None

    async def run(self, on_ready: OnReady) -> None:
        """Serve until a signal or the end of the installation; raises the error that keeps it from running."""
        joining = asyncio.create_task(self._join(on_ready))
        try:
            await self._server.serve(sockets=[self._kept.listening])
        finally:
            joining.cancel()
            with suppress(asyncio.CancelledError):
                await joining
        if self._failure is not None:
            raise self._failure

    async def _join(self, on_ready: OnReady) -> None:
        """Join the installation, announce the gateway, and return when the installation has ended."""
        cluster: Cluster | None = None
        try:
            rehearsing = asyncio.create_task(rehearse(self._app))
            cluster = await join(self._installation, self._note)
            self._app.state.cluster = cluster
            await rehearsing
            await rehearse(self._app)  # now as far as the installation
            keep_what_is_loaded()
            url = url_of(self._kept.listening)
            with announce(self._installation.data_dir, self._kept.keeper, url):
                self._kept.tell_ready()
                await on_ready(cluster, url)
                showing = asyncio.create_task(show_server_log(cluster))
                try:
                    await self._until_stopped()
                finally:
                    showing.cancel()
        except AgencyError as error:
            self._failure = error
        finally:
            self._server.should_exit = True
            if cluster is not None:
                await cluster.close()

    def _note(self, reason: str) -> None:
        self._app.state.waits_for = reason

    async def _until_stopped(self) -> None:
        """Return when the local Ray was stopped; never, if the installation is on a Ray that was started elsewhere."""
        data_dir = self._installation.data_dir
        running = await _local_ray(data_dir)
        if running is None:
            await asyncio.Event().wait()
            return
        if await RayWatch(data_dir, running.address).end() == "died":
            log.warning("the local Ray has died; the gateway starts again")
            os._exit(keeper.AGAIN)  # at once: Ray's client would soon end this process with another exit code
        log.warning("the installation was stopped")


async def _local_ray(data_dir: Path) -> LocalRay | None:
    while True:
        try:
            return await asyncio.to_thread(local_ray.find, data_dir)
        except Unavailable:
            await asyncio.sleep(LOOK_SECONDS)
