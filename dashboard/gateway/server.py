"""Running the gateway: listen at once, join the installation beside it, and stay with it.

If the local Ray dies with everything in it, the gateway begins anew in the same process, with the same socket: Ray's
client cannot be trusted after that, and whoever calls meanwhile waits a little.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import structlog
import uvicorn

from actors import Cluster, Settings, local_ray
from agency.errors import AgencyError, DefinitionError, Unavailable
from dashboard.gateway.app import create_app
from dashboard.gateway.found import announce
from dashboard.gateway.settings import GatewaySettings

log = structlog.get_logger(__name__)

INHERITED = "AGENCY_LISTENS_ON"
"""The socket that a gateway that begins anew already has."""

SEND_BYTES = 256 * 1024
"""What the kernel keeps for one client that does not read; it would be megabytes, and there may be thousands."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)
START_SECONDS = 120.0
LOOK_SECONDS = 1.0

OnReady = Callable[[Cluster, str], Awaitable[None]]


def listen(settings: GatewaySettings) -> socket.socket:
    if (inherited := os.environ.pop(INHERITED, None)) is not None:
        return socket.socket(fileno=int(inherited))
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=2_048)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does so only for sockets of its own
        return listening
    except OSError as error:
        raise DefinitionError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}; --port chooses another"
        ) from error


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


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
    def __init__(self, settings: GatewaySettings, installation: Settings) -> None:
        self._settings = settings
        self._installation = installation
        self._listening = listen(settings)
        self._app = create_app(settings)
        self._server = _Server(
            uvicorn.Config(
                self._app,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
                backlog=2_048,
                ws_max_size=64 * 1024,
                ws_per_message_deflate=False,
                timeout_graceful_shutdown=3,
            )
        )
        self._failure: AgencyError | None = None
        self._begin_anew = False

    async def run(self, on_ready: OnReady) -> None:
        """Serve until told to stop. Raises what keeps the installation from running."""
        beside = asyncio.create_task(self._accompany(on_ready))
        try:
            await self._server.serve(sockets=[self._listening.dup()])  # it closes what it is given
        finally:
            beside.cancel()
            with suppress(asyncio.CancelledError):
                await beside
        if self._begin_anew:
            self._exec()
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
            with announce(self._installation.data_dir, url_of(self._listening)):
                await on_ready(cluster, url_of(self._listening))
                await self._look_after()
        except AgencyError as error:
            self._failure = error
        finally:
            self._server.should_exit = True
            if cluster is not None and not self._begin_anew:
                await cluster.close()

    async def _until_ready(self, cluster: Cluster) -> None:
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        while not (found := await cluster.ready()).ready:
            if asyncio.get_running_loop().time() > deadline:
                raise Unavailable(f"the installation does not get ready: {found.reason}")
            await asyncio.sleep(0.1)

    async def _look_after(self) -> None:
        """Return when the local Ray is gone; one that was joined elsewhere is looked after there."""
        data_dir = self._installation.data_dir
        if await asyncio.to_thread(local_ray.find, data_dir) is None:
            await asyncio.Event().wait()
        while await asyncio.to_thread(local_ray.find, data_dir) is not None:  # noqa: ASYNC110  # another process's
            await asyncio.sleep(LOOK_SECONDS)
        self._begin_anew = local_ray.was_started(data_dir)
        log.warning("Ray has died; beginning anew" if self._begin_anew else "the installation was stopped")

    def _exec(self) -> None:
        environment = dict(os.environ)
        if self._settings.secret is not None:
            environment["AGENCY_SECRET"] = self._settings.secret.get_secret_value()
        os.set_inheritable(self._listening.fileno(), True)
        environment[INHERITED] = str(self._listening.fileno())
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
