"""Running the gateway: listen at once, join the installation beside it, and stay with it.

If the local Ray dies with everything in it, this process ends, and its keeper starts another: Ray's client cannot be
trusted after that.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import structlog
import uvicorn

from actors import Cluster, Settings
from actors.cluster import local_ray
from agency.errors import AgencyError, Unavailable
from dashboard.gateway import keeper
from dashboard.gateway.app import create_app
from dashboard.gateway.discovery import announce
from dashboard.gateway.keeper import Kept
from dashboard.gateway.server_socket import url_of
from dashboard.gateway.settings import GatewaySettings

log = structlog.get_logger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)
START_SECONDS = 120.0
LOOK_SECONDS = 0.5

OnReady = Callable[[Cluster, str], Awaitable[None]]


class _Server(uvicorn.Server):
    """Ends quietly when told to; uvicorn's own would end with the signal."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        self.heed_signals()
        try:
            yield
        finally:
            for each in SIGNALS:
                asyncio.get_running_loop().remove_signal_handler(each)

    def heed_signals(self) -> None:
        for each in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(each, self.handle_exit, each, None)


class Gateway:
    def __init__(self, settings: GatewaySettings, installation: Settings, kept: Kept) -> None:
        self._installation = installation
        self._kept = kept
        self._app = create_app(settings)
        self._server = _Server(
            uvicorn.Config(
                self._app,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=bool(settings.trusted_proxies),
                forwarded_allow_ips=settings.trusted_proxies,
                lifespan="off",
                backlog=2_048,
                ws_max_size=64 * 1024,
                ws_per_message_deflate=False,
                timeout_graceful_shutdown=3,
            )
        )
        self._failure: AgencyError | None = None

    async def run(self, on_ready: OnReady) -> None:
        """Serve until told to stop. Raises what keeps the installation from running."""
        beside = asyncio.create_task(self._accompany(on_ready))
        try:
            await self._server.serve(sockets=[self._kept.listening])
        finally:
            beside.cancel()
            with suppress(asyncio.CancelledError):
                await beside
        if self._failure is not None:
            raise self._failure

    async def _accompany(self, on_ready: OnReady) -> None:
        """Join, say so, and look after it."""
        cluster: Cluster | None = None
        try:
            cluster = await Cluster.join(self._installation, renew=True)
            self._server.heed_signals()  # again: Ray would print a stack at each
            await self._until_ready(cluster)
            self._app.state.cluster = cluster
            url = url_of(self._kept.listening)
            with announce(self._installation.data_dir, self._kept.keeper, url):
                self._kept.tell_ready()
                await on_ready(cluster, url)
                await self._look_after()
        except AgencyError as error:
            self._failure = error
        finally:
            self._server.should_exit = True
            if cluster is not None:
                await cluster.close()

    async def _until_ready(self, cluster: Cluster) -> None:
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        while not (found := await cluster.ready()).ready:
            if asyncio.get_running_loop().time() > deadline:
                raise Unavailable(f"the installation does not get ready: {found.reason}")
            await asyncio.sleep(0.1)

    async def _look_after(self) -> None:
        """Return when the local Ray was stopped; one that was joined elsewhere is looked after there."""
        data_dir = self._installation.data_dir
        running = await asyncio.to_thread(local_ray.find, data_dir)
        if running is None:
            await asyncio.Event().wait()
            return
        while await asyncio.to_thread(local_ray.listens, running.address):  # noqa: ASYNC110  # another process's
            await asyncio.sleep(LOOK_SECONDS)
        if local_ray.was_started(data_dir):
            log.warning("Ray has died; beginning anew")
            os._exit(keeper.AGAIN)  # at once, before Ray's client ends this process in its own way
        log.warning("the installation was stopped")
