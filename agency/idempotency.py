"""Telling a request that is made again from another one that has the same idempotency key.

A digest of what a request asked for is stored beside its key. The same key with the same digest is a repetition and
gets the first answer; with another digest it is refused, because one of the two requests would be lost without a word.
What is left out of a request is left out of its digest, too: so a release that knows more fields makes the same digest
of the same request.
"""

from __future__ import annotations

import hashlib
import json

from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from agency.errors import KeyReused


def request_digest(**asked: object) -> str:
    """The digest of what a request asked for; None, and what is empty, is as if it were left out."""
    given = {name: _plain(value) for name, value in asked.items() if value is not None}
    told = json.dumps({name: value for name, value in given.items() if value not in ("", [], {})}, sort_keys=True)
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()


def _plain(value: object) -> JsonValue:
    plain: JsonValue = to_jsonable_python(value, exclude_none=True)
    return plain


def check_repeated(known: str | None, given: str) -> None:
    """Refuse a request whose key was used for another one. Files of earlier releases have no digest to compare."""
    if known is not None and known != given:
        raise KeyReused(
            "this idempotency key or id was used for another request: use a new one, or repeat that request"
        )
