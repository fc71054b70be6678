"""The gateway's socket."""

from __future__ import annotations

import socket

from agency.errors import DefinitionError
from dashboard.gateway.settings import GatewaySettings

BACKLOG = 2_048
"""Connections that wait in the kernel until they are accepted, also while the gateway starts again."""

SEND_BYTES = 256 * 1024
"""What the kernel buffers for one client that does not read. The default is megabytes, and there may be thousands."""


def listen(settings: GatewaySettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        listening.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
        )  # asyncio sets this only on sockets that it creates
        return listening
    except OSError as error:
        raise DefinitionError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}; --port chooses another"
        ) from error


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"
