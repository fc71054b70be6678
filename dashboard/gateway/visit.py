"""A visit: what one request, or one socket, has taken of the gateway's limits, from its beginning to its end.

`Guard` puts it into the scope and ends it. Copies of the scope have the same one, so what is taken on the way is noted
here, the headers of the answer tell of it, and all is given back in the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from starlette.types import Scope

VISIT = "agency.visit"

HEADERS = ("RateLimit", "RateLimit-Policy")


@dataclass(frozen=True, slots=True)
class Taken:
    """A bucket of requests as this one has left it."""

    of: str
    most: int
    left: float
    rate: float

    @property
    def wait(self) -> float:
        """Seconds until there is one more."""
        return max(0.0, 1 - self.left) / self.rate

    @property
    def policy(self) -> str:
        return f'"{self.of}";q={self.most};w={math.ceil(self.most / self.rate)}'

    @property
    def state(self) -> str:
        return f'"{self.of}";r={int(self.left)};t={math.ceil((self.most - self.left) / self.rate)}'


STRANGERS = ""
"""Callers who are not known, or not yet."""


@dataclass(slots=True)
class Visit:
    whose: str | None = STRANGERS
    """The agency whose key came with it; None is the owner's."""
    taken: list[Taken] = field(default_factory=list)
    """Those that the client is told of."""
    ends: list[Callable[[], None]] = field(default_factory=list)
    """What to give back when it is over."""

    def headers(self) -> Iterator[tuple[bytes, bytes]]:
        """The `RateLimit` headers of the IETF's draft."""
        if self.taken:
            yield b"ratelimit-policy", ", ".join(each.policy for each in self.taken).encode()
            yield b"ratelimit", ", ".join(each.state for each in self.taken).encode()

    def end(self) -> None:
        while self.ends:
            self.ends.pop()()


def visit_of(scope: Scope) -> Visit:
    visit: Visit = scope[VISIT]
    return visit
