"""Waiting for the outside: a call that ends when something beyond the thread settles it, by a token.

The one idea: a token is a capability. It is unguessable, names its agency and thread, belongs to one call, and is
enough to settle that call, once. The thread's file holds only its digest, and holds it before the tool has the token:
so what settles it at once finds the call, and what reads the file cannot settle anything.

The token must never reach an event, a transcript, a log or an error. The tool hands it out, and nothing else does.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Protocol

from agency.errors import InvalidInput, ToolError

ABOUT_CHARS = 500
LONGEST_MS = 366 * 24 * 3_600_000
"""A call waits for at most a year."""
_PARTS = 3


@dataclass(frozen=True, slots=True)
class OutsideWait:
    """A call that waits, with the `token` that settles it and its `deadline` in milliseconds. The tool returns it."""

    token: str = field(repr=False)
    about: str
    deadline: int

    def __str__(self) -> str:
        return repr(self)


class IssuesTokens(Protocol):
    """What lets a call wait for the outside."""

    async def issue(self, run: int, effect: int, call: str, about: str, timeout_ms: int) -> OutsideWait: ...


class IssuesNone:
    """In the place of it, where the thread cannot be reached."""

    async def issue(self, run: int, effect: int, call: str, about: str, timeout_ms: int) -> OutsideWait:
        raise ToolError("a tool with `ray` options runs outside of its thread, and cannot wait for the outside")


def new_token(agency: str, thread: str) -> str:
    return f"{agency}.{thread}.{secrets.token_urlsafe(32)}"


def address_of(token: str) -> tuple[str, str]:
    """The agency and the thread that a token names; `InvalidInput` if it is none."""
    parts = token.split(".")
    if len(parts) != _PARTS or not all(parts):
        raise InvalidInput("this is no token of a waiting call: one has an agency, a thread and a secret, with dots")
    return parts[0], parts[1]


def digest_of(token: str) -> str:
    """What is stored of a token, which has more entropy than can be tried."""
    return hashlib.sha256(token.encode()).hexdigest()


def checked_wait(about: str, timeout_ms: float) -> None:
    if not about.strip() or len(about) > ABOUT_CHARS:
        raise InvalidInput(f"say in 1 to {ABOUT_CHARS} characters what the call waits for")
    if not isinstance(timeout_ms, int) or not 1 <= timeout_ms <= LONGEST_MS:
        raise InvalidInput(f"a call waits for 1 to {LONGEST_MS} milliseconds, as an int, not {timeout_ms!r:.50}")
