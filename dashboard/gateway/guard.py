"""Checks before every request: its size, how many a client may send, and which web pages may send them.

Without a secret the gateway trusts every client that reaches it, and every page in a person's browser can reach
loopback. So it then accepts requests only under its own host names, which defeats DNS rebinding (a foreign page whose
name resolves to this machine), and refuses sockets and requests that change something from pages of other sites: the
`Origin` of the page is compared with the name that the request is for, whatever else a request says of itself.
"""

from __future__ import annotations

import http
import ipaddress
import re
import time

import structlog
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agency.errors import AgencyError, Forbidden, TooLarge
from dashboard.gateway.access import credentials
from dashboard.gateway.intake import Intake
from dashboard.gateway.metrics import LATENCY, REQUESTS
from dashboard.gateway.mounting import path_in_app
from dashboard.gateway.problems import as_problem
from dashboard.gateway.rates import GatewayRates
from dashboard.gateway.settings import GatewaySettings
from dashboard.gateway.upgrades import check_upgrade
from dashboard.gateway.visit import VISIT, Visit, visit_of

log = structlog.get_logger(__name__)

QUIET = ("/healthz", "/metrics")
"""Probes ask these all the time, so they are logged only if they fail."""

SETTLE = "/settle/"
"""The address of a webhook goes on with a token, which is a secret and in no log line."""

REHEARSAL = "agency.rehearsal"
"""In the scope of a request that warms up the app: it is in no figure and no log line. No client can put it there."""

METHODS = frozenset(http.HTTPMethod)

_PATH = re.compile(r"/agency/(?P<agency>[\w-]+)(?:/agent/(?P<thread>[\w-]+))?")


def check_caller(connection: HTTPConnection) -> None:
    """Refuse a client before anything else is looked at: too many requests, a foreign host name, a foreign page."""
    settings: GatewaySettings = connection.app.state.settings
    rates: GatewayRates = connection.app.state.rates
    rates.client(connection)
    if settings.secret is None:
        _check_address(connection, settings)
        _check_name(connection, settings)
    _check_page(connection, settings)


def _check_address(connection: HTTPConnection, settings: GatewaySettings) -> None:
    """Inside of another program's server, the gateway does not know at which addresses that listens. What a trusted
    proxy lets through, it answers for."""
    client = connection.client.host if connection.client is not None else ""
    if settings.for_this_machine and not (settings.trusted_proxies or _is_loopback(client)):
        raise Forbidden("without a secret this server is for clients on its own machine; set AGENCY_SECRET for others")


def _check_name(connection: HTTPConnection, settings: GatewaySettings) -> None:
    name = connection.url.hostname or ""
    if settings.for_this_machine and not (name in ("localhost", settings.host) or _is_loopback(name)):
        raise Forbidden(f"this server is not called {name[:100]!r}; without a secret it is reached as localhost only")


def _check_page(connection: HTTPConnection, settings: GatewaySettings) -> None:
    """Refuse what a page of another site changes or listens to, whatever else the request says of itself.

    No browser adds an `Authorization` by itself, but a proxy that signs people in may. So with a secret, what shows a
    credential is held to it, too; what shows none, or a ticket, is judged by that.
    """
    origin = connection.headers.get("origin")
    if origin in settings.cors_origins or connection.scope.get("method") in ("GET", "HEAD", "OPTIONS"):
        return
    told = connection.headers.get("sec-fetch-site") in ("cross-site", "same-site")
    foreign = told or (origin is not None and not _is_of_this_server(origin, connection))
    if foreign and (settings.secret is None or credentials(connection)):
        raise Forbidden(
            "pages of other sites may not use this server; AGENCY_CORS_ORIGINS names those that may. If this page is "
            "its own, have the proxy in between pass on the `Host` that it was asked for"
        )


def _is_of_this_server(origin: str, connection: HTTPConnection) -> bool:
    """Whether a page comes from here: under the name that its request is for, or that a trusted proxy was asked for."""
    proxied = connection.headers.get("x-forwarded-host", "").partition(",")[0].strip()
    names = {connection.headers.get("host", "").lower(), proxied.lower()} - {""}
    return origin.partition("://")[2].lower() in names


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Guard:
    """The checks, around all of the app but what proxies say."""

    def __init__(self, app: ASGIApp, body_bytes: int, intake: Intake) -> None:
        self._app = app
        self._body_bytes = body_bytes
        self._intake = intake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[VISIT] = visit = Visit()
        try:
            await self._visited(scope, receive, send)
        finally:
            visit.end()

    async def _visited(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        found = _PATH.match(path_in_app(scope))
        names = {} if found is None else {name: value for name, value in found.groupdict().items() if value}
        with structlog.contextvars.bound_contextvars(**names):
            await _CheckedRequest(self._app, scope, receive, send, self._body_bytes, self._intake).run()


class _CheckedRequest:
    """One request on its way through the checks, and its answer."""

    def __init__(
        self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, body_bytes: int, intake: Intake
    ) -> None:
        self._app = app
        self._scope = scope
        self._receive = receive
        self._send = send
        self._most = body_bytes
        self._intake = intake
        self._got = 0
        self._status: int | None = None
        self._refused = False

    async def run(self) -> None:
        began = time.perf_counter()
        try:
            check_caller(HTTPConnection(self._scope))
            check_upgrade(self._scope)
            self._check_announced()
            await self._app(self._scope, self._counted, self._watched)
        except Exception as error:
            if self._status is None:
                await as_problem(error)(self._scope, self._receive, self._watched)
            else:
                log.error("answer failed after its head was sent", exc_info=error)
        finally:
            if REHEARSAL not in self._scope:
                self._note(time.perf_counter() - began)

    def _check_announced(self) -> None:
        for name, value in self._scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > self._most:
                raise self._too_large()

    def _too_large(self) -> TooLarge:
        return TooLarge(f"a request has at most {self._most} bytes")

    async def _counted(self) -> Message:
        message = await self._receive()
        try:
            self._take(len(message.get("body", b"")))
        except AgencyError as error:
            if self._status is None:
                await as_problem(error)(self._scope, self._receive, self._watched)
            self._refused = True
        return {"type": "http.disconnect"} if self._refused else message

    def _take(self, length: int) -> None:
        self._got += length
        if self._got > self._most:
            raise self._too_large()
        self._intake.take(visit_of(self._scope), length)

    async def _watched(self, message: Message) -> None:
        if self._refused:
            return
        if message["type"] == "http.response.start":
            self._status = message["status"]
            added = [(b"x-content-type-options", b"nosniff"), *visit_of(self._scope).headers()]
            message["headers"] = [*message.get("headers", []), *added]
        await self._send(message)

    def _note(self, seconds: float) -> None:
        method, path, status = self._scope["method"], self._scope["path"], self._status or 499
        counted = (
            method if method in METHODS else "other"
        )  # clients invent methods, and each would be a new time series
        route = getattr(self._scope.get("route"), "path", "none")
        REQUESTS.labels(counted, route, str(status)).inc()
        LATENCY.labels(counted, route).observe(seconds)
        if path_in_app(self._scope) not in QUIET or status >= 400:
            before, settles, _ = path.partition(SETTLE)
            log.info("request", method=method, path=before + settles, status=status, ms=round(1000 * seconds, 1))
