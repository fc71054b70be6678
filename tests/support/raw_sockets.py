"""Clients of a gateway that write what they like to its port."""

from __future__ import annotations

import socket
from contextlib import suppress

from tests.support.gateways import Server


def opened(server: Server, said: bytes = b"") -> socket.socket:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    made = socket.create_connection((host, int(port)), timeout=60)
    made.sendall(said)
    return made


def told(client: socket.socket) -> bytes:
    """All that a client is told before its connection is closed."""
    said = b""
    with suppress(ConnectionResetError):
        while piece := client.recv(65_536):
            said += piece
    return said


def answered(server: Server, said: bytes) -> bytes:
    """All that a client is told that says this, and nothing more."""
    with opened(server, said) as client:
        return told(client)
