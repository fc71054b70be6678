"""What proxies say about a request: where it came from, by which scheme, and for Cloudflare's from which place.

Every client can send these headers. So they are removed from requests that come from any other address than a trusted
proxy's, before any other layer looks at them: whatever comes later may believe what it finds.
"""

from __future__ import annotations

import ipaddress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from agency.errors import DefinitionError

ANY = "*"
_FORWARDED = (b"x-forwarded-", b"x-real-ip", b"forwarded", b"cf-")
_SECURE = {"http": "https", "websocket": "wss"}

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Trusted:
    """Addresses and networks, separated by commas; `*` is every address."""

    def __init__(self, given: str) -> None:
        names = [name.strip() for name in given.split(",") if name.strip()]
        self._any = ANY in names
        self._networks = [_network(name) for name in names if name != ANY]

    def __contains__(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return self._any
        plain = getattr(found, "ipv4_mapped", None) or found
        return self._any or any(plain in network for network in self._networks)


def _network(name: str) -> _Network:
    try:
        return ipaddress.ip_network(name, strict=False)
    except ValueError:
        raise DefinitionError(
            "settings: trusted_proxies are addresses or networks, as in '10.0.0.7, 173.245.48.0/20', or '*'; "
            f"not {name!r}"
        ) from None


def _bare(address: str) -> str:
    """An address without the port that some proxies add: `192.0.2.1:4711` or `[2001:db8::1]:4711`."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address


class TrustedProxies:
    """The outermost layer of an app."""

    def __init__(self, app: ASGIApp, trusted: str) -> None:
        self._app = app
        self._trusted = Trusted(trusted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            scope = self._believed(scope)
        await self._app(scope, receive, send)

    def _believed(self, scope: Scope) -> Scope:
        headers = Headers(scope=scope)
        peer, port = scope.get("client") or ("", 0)
        if peer not in self._trusted:
            kept = [(name, value) for name, value in scope["headers"] if not name.lower().startswith(_FORWARDED)]
            return {**scope, "headers": kept}
        address = self._origin(headers)
        secure = headers.get("x-forwarded-proto", "").strip().lower() in ("https", "wss")
        client = (peer, port) if address is None else (address, 0)
        return {**scope, "client": client, "scheme": _SECURE[scope["type"]] if secure else scope["scheme"]}

    def _origin(self, headers: Headers) -> str | None:
        """Where a request came from: the last address in `X-Forwarded-For` that no trusted proxy has. A client may put
        what it likes before that one. Only without it, the headers count of which a proxy may pass on a client's."""
        listed = [_bare(part.strip()) for part in headers.get("x-forwarded-for", "").split(",") if part.strip()]
        for address in reversed(listed):
            if address not in self._trusted:
                return address
        if listed:
            return listed[0]
        return headers.get("cf-connecting-ip") or headers.get("x-real-ip")
