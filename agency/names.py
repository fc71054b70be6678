"""What may stand in a name: of an agency, a key, a schedule, a thread or a model, and in the path of a file.

People read names in lists, at terminals and in logs, and decide by them. So no name has characters that are not seen,
or that change how the rest is seen: controls, and what Unicode calls formats, as those that have no width or turn the
direction of writing. Texts (messages, prompts, descriptions) are free. Only what is new is checked: what was stored
before can be read, and deleted.
"""

from __future__ import annotations

import posixpath
import unicodedata

from agency.errors import InvalidInput

PATH_CHARS = 1_024

_UNFIT = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Controls, formats, lone surrogates, and separators of lines and paragraphs, by their categories."""
_JOINERS = "\u200c\u200d"
"""Formats that some scripts need, and emoji of several parts."""


def check_name(name: str, whose: str) -> str:
    """The name; `InvalidInput` if it has a character that no name has. `whose` says what it is: "an agency's name"."""
    character = next((each for each in name if unicodedata.category(each) in _UNFIT and each not in _JOINERS), None)
    if character is not None:
        called = unicodedata.name(character, "a control character")
        raise InvalidInput(
            f"{whose} cannot have the character U+{ord(character):04X} ({called}): names have neither controls nor "
            "characters that are not seen or change the direction of writing"
        )
    return name


def file_path(path: str) -> str:
    """The path of a file of an agent, as it is kept: absolute, in the form without `.`, `..` and empty parts. It is a
    key in the thread's own store, and nothing of the machine; still, what would lead out of the root is refused."""
    if not path.startswith("/"):
        raise InvalidInput('a path begins with "/"')
    if len(path) > PATH_CHARS or "\0" in path:
        raise InvalidInput(f"a path has at most {PATH_CHARS} characters and no NUL")
    check_name(path, "a path")
    if "\\" in path:
        raise InvalidInput('the parts of a path are separated by "/", and it has no "\\"')
    if posixpath.normpath(path.lstrip("/")).startswith(".."):
        raise InvalidInput('a path does not lead above "/"')
    tidy = posixpath.normpath("/" + path.lstrip("/"))
    if tidy == "/" or path.endswith("/"):
        raise InvalidInput("that is a folder; name a file")
    return tidy
