"""A thread's title: one line that tells it from others in a list.

It is the beginning of the first message that a user wrote, as plain text, until a middleware sets a better one
(`HookContext.set_title`). It is stored with the thread, so every list and every process shows the same one. What a
person names a thread is kept by its agency, and stands before this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agency.messages import Message

TITLE_CHARS = 80
IMAGE_ALONE = "Image"

SET_TITLE = "REPLACE INTO meta VALUES ('title', ?)"
"""The statement that sets it, in the commit of whatever it follows from."""

_MARKS = re.compile(r"(?m)^\s*(?:#{1,6}\s+|>\s?|[-*+]\s+|```\S*\s*$)|[`*_]{2,}|`")
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\s]*\)")


def as_title(text: str) -> str:
    """One short line of plain text; empty if there is nothing to say."""
    plain = _LINK.sub(r"\1", text[: 40 * TITLE_CHARS])
    line = " ".join("".join(each for each in _MARKS.sub(" ", plain) if each.isprintable() or each.isspace()).split())
    if len(line) <= TITLE_CHARS:
        return line
    head = line[: TITLE_CHARS - 1]
    words, _, _ = head.rpartition(" ")
    return f"{words if len(words) > TITLE_CHARS // 2 else head}…"


def title_of(messages: Iterable[Message]) -> str:
    """The title that the first message of a user gives; empty if there is none yet."""
    for message in messages:
        if message.role == "user" and message.origin is None:
            return as_title(message.content) or (IMAGE_ALONE if message.images else "")
    return ""
