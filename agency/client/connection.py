"""The address and the credential of a gateway; and the answers and errors of httpx as this client's own values."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field

import httpx

from agency.client.exchange import Answer, NoAnswer
from agency.client.following import SILENCE_SECONDS
from agency.errors import InvalidInput

DEFAULT_URL = "http://127.0.0.1:8000"
CONNECT_SECONDS = 5.0

LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=3.0)
"""Following events takes a connection each, so their number is not limited. An idle connection is dropped before the
server would close it under a request."""

FOLLOWING = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)

_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)


@dataclass(frozen=True, slots=True)
class Target:
    url: str
    secret: str | None = field(repr=False)

    @classmethod
    def of(cls, url: str | None, secret: str | None) -> Target:
        """From arguments, else from AGENCY_URL and AGENCY_SECRET. An agency's key can be given as the secret."""
        where = url or os.environ.get("AGENCY_URL") or DEFAULT_URL
        shown = (secret or os.environ.get("AGENCY_SECRET") or "").strip() or None
        try:
            parsed = httpx.URL(where)
        except httpx.InvalidURL as error:
            raise InvalidInput(f"{where!r:.200} is no address: {error}") from error
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise InvalidInput(f"a server's address is like {DEFAULT_URL}, not {where!r:.200}")
        if shown is not None and not (shown.isascii() and shown.isprintable()):
            raise InvalidInput("the secret has characters that cannot be sent; only ASCII can")
        return cls(where.rstrip("/"), shown)

    @property
    def headers(self) -> dict[str, str]:
        shown = {} if self.secret is None else {"Authorization": f"Bearer {self.secret}"}
        return {"User-Agent": "agency-client", **shown}

    @property
    def trust_env(self) -> bool:
        """Whether to use the environment's proxies: not to reach this machine itself."""
        host = httpx.URL(self.url).host
        try:
            return not ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host != "localhost"


def within(seconds: float) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=CONNECT_SECONDS)


def answer_of(response: httpx.Response) -> Answer:
    content = response.content if response.is_closed else b""  # the content of a stream comes later
    return Answer(response.status_code, response.headers, content)


def no_answer(error: httpx.RequestError) -> NoAnswer:
    return NoAnswer(str(error) or type(error).__name__, sent=not isinstance(error, _UNSENT))
