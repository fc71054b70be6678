"""Keys to an agency: a caller that shows one may do what the key's role allows.

A key is one text, `agk_<agency>.<key>.<secret>`, so that its agency can be told from it. The secret is shown once, to
the caller that made the key. Only its SHA-256 goes to other processes and to the agency's file; 256 random bits need no
more.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, field

_TEXT = re.compile(r"agk_([a-zA-Z0-9_-]{1,64})\.([a-zA-Z0-9_-]{1,64})\.([a-zA-Z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class Key:
    """A key's text, taken apart."""

    agency: str
    id: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls, agency: str) -> Key:
        return cls(agency, f"key_{secrets.token_hex(8)}", secrets.token_urlsafe(32))

    @classmethod
    def parse(cls, text: object) -> Key | None:
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None
        return cls(*found.groups()) if found is not None else None

    @property
    def text(self) -> str:
        return f"agk_{self.agency}.{self.id}.{self.secret}"

    @property
    def digest(self) -> str:
        return digest(self.secret)


def agency_of_key(text: str) -> str | None:
    """The agency that a key is for; whether it is a key at all, only that agency can tell."""
    key = Key.parse(text)
    return key.agency if key is not None else None


def digest(secret: str) -> str:
    """What other processes and files know a secret by."""
    return hashlib.sha256(secret.encode()).hexdigest()
