"""Rates: how many requests a client, a key and an agency may make, over some time and at once.

The one idea: a bucket of requests for each, full at first and filled up at a steady rate. A request takes from its
client's bucket before anything is known of it, and from those of its key and its agency once its credential was found
right. So attempts with wrong keys use up what their own address has, and nothing of the agency that they name.

A heavy request, which creates something or searches, also takes from buckets of its own. Those of an agency count what
the owner does in it, too: a program that has the secret acts for many people.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict

from starlette.requests import HTTPConnection

from agency.errors import RateLimited
from dashboard.gateway.metrics import RATE_LIMITED
from dashboard.gateway.settings import GatewaySettings
from dashboard.gateway.visit import Taken, visit_of

REMEMBERED = 10_000
"""How many buckets of one kind are remembered. Beyond that, the one longest unused is forgotten, and so full again."""

FULL_AFTER = 10
"""Seconds in which the bucket of a key or an agency is filled: its rate times this is what may come at once."""

NETWORK = 64
"""Of an IPv6 address, these bits are a client's; it can choose the others."""


class Rates:
    """Buckets of one kind."""

    def __init__(self, of: str, rate: float, burst: int) -> None:
        self._of = of
        self._rate = rate
        self._burst = burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    @classmethod
    def filled(cls, of: str, rate: float) -> Rates:
        """Buckets of what is filled within `FULL_AFTER`."""
        return cls(of, rate, max(1, math.ceil(rate * FULL_AFTER)))

    def take(self, whose: str) -> tuple[bool, Taken]:
        """Whether there was one to take, and the bucket."""
        now = time.monotonic()
        left, at = self._left.pop(whose, (float(self._burst), now))
        left = min(self._burst, left + (now - at) * self._rate)
        taken = left >= 1
        left -= taken
        self._left[whose] = (left, now)
        if len(self._left) > REMEMBERED:
            self._left.popitem(last=False)
        return taken, Taken(self._of, self._burst, left, self._rate)


class GatewayRates:
    """The rates of a gateway."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._clients = Rates("client", settings.rate, settings.burst)
        self._keys = Rates.filled("key", settings.rate_of_key)
        self._agencies = Rates.filled("agency", settings.rate_of_agency)
        self._heavy_of_keys = Rates.filled("heavy-key", settings.heavy_of_key)
        self._heavy_of_agencies = Rates.filled("heavy-agency", settings.heavy_of_agency)

    def client(self, connection: HTTPConnection) -> None:
        _take(self._clients, client_of(connection), connection, tell=False)

    def key(self, connection: HTTPConnection, agency: str, key: str) -> None:
        """A request with a right key."""
        _take(self._keys, f"{agency}/{key}", connection)
        _take(self._agencies, agency, connection)

    def heavy(self, connection: HTTPConnection, agency: str, key: str | None) -> None:
        """A heavy request in an agency; of the owner, if there is no key."""
        if key is not None:
            _take(self._heavy_of_keys, f"{agency}/{key}", connection)
        _take(self._heavy_of_agencies, agency, connection)


def _take(rates: Rates, whose: str, connection: HTTPConnection, *, tell: bool = True) -> None:
    """Take from a bucket. The answer tells of it, if that is wanted or if there was nothing to take."""
    there, taken = rates.take(whose)
    if tell or not there:
        visit_of(connection.scope).taken.append(taken)
    if not there:
        RATE_LIMITED.labels(taken.of).inc()
        raise _too_many(taken)


def _too_many(taken: Taken) -> RateLimited:
    error = RateLimited(
        f"too many requests: the rate of this {taken.of} is {taken.rate:g} a second; try again after "
        f"{math.ceil(taken.wait)} s"
    )
    error.retry_after = taken.wait
    return error


def client_of(connection: HTTPConnection) -> str:
    """Where a request comes from, as far as its client cannot choose that."""
    host = connection.client.host if connection.client is not None else ""
    if ":" not in host:
        return host
    try:
        return str(ipaddress.ip_network((host.partition("%")[0], NETWORK), strict=False))
    except ValueError:
        return host
