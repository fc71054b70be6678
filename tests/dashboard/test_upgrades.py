"""Requests for a WebSocket that are none: each gets an answer that says what is wrong, and the log no traceback."""

from __future__ import annotations

import json

import pytest

from tests.support.gateways import Server
from tests.support.raw_sockets import answered

KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
VERSION = b"Sec-WebSocket-Version: 13"
ASKS = (b"Host: localhost", b"Connection: Upgrade", b"Upgrade: websocket")


def asked(*lines: bytes, first: bytes = b"GET /agency/a/ws HTTP/1.1", body: bytes = b"") -> bytes:
    return b"\r\n".join([first, *ASKS, *lines, b"", body])


@pytest.mark.parametrize(
    ("said", "status", "about"),
    [
        (asked(VERSION), 400, "Sec-WebSocket-Key"),
        (asked(VERSION, b"Sec-WebSocket-Key: short"), 400, "Sec-WebSocket-Key"),
        (asked(VERSION, b"Sec-WebSocket-Key: %%%"), 400, "Sec-WebSocket-Key"),
        (asked(VERSION, KEY, KEY), 400, "Sec-WebSocket-Key"),
        (asked(KEY), 426, "Sec-WebSocket-Version"),
        (asked(KEY, b"Sec-WebSocket-Version: 8"), 426, "Sec-WebSocket-Version"),
        (asked(KEY, VERSION, VERSION), 426, "Sec-WebSocket-Version"),
        (asked(KEY, VERSION, first=b"POST /agency/a/ws HTTP/1.1"), 400, "GET"),
        (asked(KEY, VERSION, first=b"GET /agency/a/ws HTTP/1.0"), 400, "HTTP/1.1"),
        (asked(KEY, VERSION, b"Content-Length: 5", body=b"hello"), 400, "no body"),
        (asked(KEY, VERSION, b"Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\n\r\n"), 400, "no body"),
        (asked(KEY, VERSION, b"Upgrade: websocket"), 400, "Upgrade"),
        (asked(KEY, VERSION, b"Origin: http://localhost", b"Origin: http://localhost"), 400, "Origin"),
        (asked(KEY, VERSION, b"X-Long: " + b"x" * 9_000), 400, "lines"),
        (asked(KEY, VERSION, *[b"X-Many: x"] * 130), 400, "lines"),
        (asked(KEY, VERSION, first=b"GET /agency/a/ws?x=" + b"x" * 9_000 + b" HTTP/1.1"), 400, "lines"),
    ],
)
def test_what_is_no_whole_request_for_a_socket_is_told_what_is_wrong(
    gateway: Server, said: bytes, status: int, about: str
) -> None:
    before = gateway.log.stat().st_size  # other tests use it, too
    head, _, body = answered(gateway, said.replace(b"Upgrade\r\n", b"Upgrade, close\r\n", 1)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), head
    assert (b"\r\nsec-websocket-version: 13" in head.lower()) == (status == 426)
    problem = json.loads(body)
    assert (problem["status"], problem["code"]) == (status, "ERR_INVALID_INPUT")
    assert about in problem["detail"]
    assert b"Traceback" not in gateway.log.read_bytes()[before:]


def test_its_connection_takes_the_next_request(gateway: Server) -> None:
    refused = asked(KEY, VERSION, b"Content-Length: 5", body=b"hello")
    said = answered(gateway, refused + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 400 ") and b"}HTTP/1.1 200 " in said
