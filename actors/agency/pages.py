"""Pages of lists: a page ends when it is long enough, in things or in bytes, and the next one begins after its last.

So no list takes more memory than a page, however many large things a tenant has stored. A page has at least one thing:
one that is larger than a page is a page of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from agency.errors import InvalidInput

PAGE_MOST = 1_000


class Page(NamedTuple):
    rows: list[tuple[Any, ...]]
    more: bool


def check_limit(limit: int, of: str) -> None:
    if not 1 <= limit <= PAGE_MOST:
        raise InvalidInput(f"a page has 1 to {PAGE_MOST} {of}, not {limit}")


def page_of(rows: Iterable[tuple[Any, ...]], limit: int, most: int) -> Page:
    """The first rows, and whether there are more."""
    found: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        size += size_of(row)
        if found and (len(found) >= limit or size > most):
            return Page(found, more=True)
        found.append(row)
    return Page(found, more=False)


def size_of(row: Sequence[Any]) -> int:
    """The bytes of its texts. Little else is in a row."""
    return sum(text_bytes(each) for each in row if isinstance(each, str))


def text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def merged(own: Page, after: str, others: Iterable[str], limit: int) -> tuple[list[str], bool]:
    """The names of a page that has an agency's own things and those of the installation, and whether there are more.
    Each of the agency's rows begins with its name; of the same name, it is in the place of the other."""
    mine = [row[0] for row in own.rows]
    last = mine[-1] if own.more else None
    names = sorted({*mine, *(name for name in others if name > after and (last is None or name < last))})
    return names[:limit], own.more or len(names) > limit
