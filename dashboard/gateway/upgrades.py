"""Requests that ask for a WebSocket, checked before the connection becomes one.

The one idea: what is no whole request for a WebSocket stays a request like others, and is refused as such. The library
that speaks WebSockets would break off in the middle of one with a body, another method or too long a head, and leave
the client without an answer.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from websockets.http11 import MAX_LINE_LENGTH, MAX_NUM_HEADERS

VERSION = "13"
"""RFC 6455 has no other."""
KEY_BYTES = 16

Headers = Iterable[tuple[bytes, bytes]]


class BadUpgrade(HTTPException):
    """It asks for a WebSocket, and is no whole request for one."""


def asks_for_socket(headers: Headers) -> bool:
    """Whether a request asks for a WebSocket, whatever else is wrong with it."""
    options = b",".join(_all(headers, b"connection")).lower().split(b",")
    wanted = [each.strip().lower() for each in _all(headers, b"upgrade")]
    return b"websocket" in wanted and b"upgrade" in (each.strip() for each in options)


def check_upgrade(scope: Mapping[str, Any]) -> None:
    """Refuse what asks for a WebSocket and cannot become one. What asks for none is not looked at."""
    headers = [(name.lower(), value) for name, value in scope["headers"]]
    if not asks_for_socket(headers):
        return
    if (scope["method"], scope["http_version"]) != ("GET", "1.1"):
        raise BadUpgrade(400, "a WebSocket is asked for by `GET` and HTTP/1.1")
    if any(value.strip() != b"0" for value in _all(headers, b"content-length")) or _all(headers, b"transfer-encoding"):
        raise BadUpgrade(400, "a request for a WebSocket has no body")
    _check_size(scope, headers)
    if _all(headers, b"sec-websocket-version") != [VERSION.encode()]:
        needed = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": VERSION}
        raise BadUpgrade(426, f"a request for a WebSocket has one `Sec-WebSocket-Version`, {VERSION}", needed)
    keys = _all(headers, b"sec-websocket-key")
    if len(keys) != 1 or not _is_key(keys[0]):
        raise BadUpgrade(400, f"a request for a WebSocket has one `Sec-WebSocket-Key`: {KEY_BYTES} bytes in base64")
    for once in (b"upgrade", b"origin"):
        if len(_all(headers, once)) > 1:
            raise BadUpgrade(400, f"a request for a WebSocket has one `{once.decode().title()}`")


def can_upgrade(scope: Mapping[str, Any]) -> bool:
    try:
        check_upgrade(scope)
    except BadUpgrade:
        return False
    return True


def _check_size(scope: Mapping[str, Any], headers: list[tuple[bytes, bytes]]) -> None:
    """The library has limits of its own for a head, which are lower than those for other requests."""
    first = len(scope.get("raw_path") or b"") + len(scope["query_string"]) + len("GET ? HTTP/1.1")
    longest = max([first, *(len(name) + len(value) + len(": ") for name, value in headers)])
    if longest + len("\r\n") > MAX_LINE_LENGTH or len(headers) > MAX_NUM_HEADERS:
        raise BadUpgrade(
            400,
            f"the head of a request for a WebSocket has at most {MAX_NUM_HEADERS} lines of {MAX_LINE_LENGTH} bytes",
        )


def _is_key(given: bytes) -> bool:
    try:
        return len(base64.b64decode(given, validate=True)) == KEY_BYTES
    except binascii.Error:
        return False


def _all(headers: Headers, wanted: bytes) -> list[bytes]:
    return [value for name, value in headers if name == wanted]
