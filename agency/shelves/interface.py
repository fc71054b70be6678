"""Shelves: bytes that outlive threads, such as memory, skills, knowledge and artifacts.

An agency has shelves, a shelf has entries, and an entry is bytes under a path, with a version. `ShelfStore` is all that
a place to keep them has to be able to do: `LocalShelves` keeps them in a file; object storage can be another one.

The one idea: a path is a key and never the name of a file, so no path can lead out of its shelf. It is checked all the
same, because people see it, clients put it into addresses, and another store may use it as a name.

A store belongs to one agency. It must never be given to a thread of another one.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from agency.errors import InvalidInput, TooLarge
from agency.names import check_name
from agency.wire import Wire

Version = str
"""Changes with every write, and is never used again, not even for an entry that was deleted and written anew. Compare
versions for equality only: they are up to 200 printable ASCII characters, without
spaces and quotes, of the store's own choosing."""

ABSENT: Final[Literal["absent"]] = "absent"
"""As `if_version`: only if there is no entry under the path."""

ENTRY_BYTES: Final = 16 * 1024 * 1024
PATH_BYTES: Final = 512
PAGE_MOST: Final = 1_000
KEY_CHARS: Final = 512

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_VERSION = re.compile(r"[!#-~]{1,200}")
"""Printable ASCII without quotes and spaces, because it travels as an ETag."""
_UNFIT = frozenset(("Cc", "Cs", "Zl", "Zp"))
"""Categories of characters that no path has: controls, lone surrogates, separators of lines and paragraphs."""


class ShelfEntry(Wire):
    """What is known about an entry, without its content."""

    shelf: str
    path: str
    version: Version
    size: int
    """In bytes."""
    created_at: str
    updated_at: str


class ShelfPage(Wire):
    """Entries in the order of their paths."""

    entries: tuple[ShelfEntry, ...]
    next: str | None = None
    """`after` of the next page; None if this is the last."""


class ShelfInfo(Wire):
    """A shelf that has entries."""

    name: str
    entries: int
    size: int
    """Of all its entries, in bytes."""


class ShelfList(Wire):
    """An agency's shelves, by name."""

    shelves: tuple[ShelfInfo, ...]


@dataclass(frozen=True, slots=True)
class ShelfItem:
    """An entry with its content, as it was at one moment."""

    content: bytes
    version: Version

    @property
    def text(self) -> str:
        """The content as UTF-8."""
        try:
            return self.content.decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(f"the entry is not text: {error.reason} at byte {error.start}") from error


class ShelfStore(Protocol):
    """One agency's shelves.

    Every method may block and may be called in any thread and in several processes at once; a write is there whole, for
    all of them, when it returns. Implementations check what they are given with the functions below, and can be
    pickled, because tools that run elsewhere take theirs along.
    """

    def shelves(self) -> list[ShelfInfo]:
        """The shelves that have entries, by name."""

    def entries(self, shelf: str, prefix: str = "", *, after: str = "", limit: int = 100) -> ShelfPage:
        """The entries whose paths begin with a prefix, after a path."""

    def read(self, shelf: str, path: str) -> ShelfItem:
        """An entry's content; `NotFound` if there is none."""

    def write(
        self, shelf: str, path: str, content: bytes, *, if_version: Version | None = None, key: str = ""
    ) -> ShelfEntry:
        """Put an entry under a path, in the place of what is there. With `if_version`, only if that is the entry's
        version, or with `ABSENT` if there is none; else `VersionConflict`, and nothing changes.

        A `key` names this write: made again with the same key, condition and content, as after a lost answer or a
        crash, it changes nothing and gives what it gave, as long as the entry has not been written otherwise."""

    def delete(self, shelf: str, path: str, *, if_version: Version | None = None) -> None:
        """Remove an entry; `NotFound` if there is none, `VersionConflict` if it has another version."""


# What implementations, handles, routes and clients check alike.


def checked_shelf(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(f"the name of a shelf has 1 to 64 letters, digits, '-' and '_', not {name!r:.100}")
    return name


def new_path(path: object) -> str:
    """The path of an entry that is to be written: as `checked_path`, and fit to be a name."""
    return check_name(checked_path(path), "the path of an entry")


def checked_path(path: object) -> str:
    """The path in Unicode's composed form, so that what looks the same is the same."""
    if not isinstance(path, str):
        raise InvalidInput(f"the path of an entry is text, not {path!r:.100}")
    _check_characters(path)
    if not path:
        raise InvalidInput("the path of an entry is missing; it is like notes/today.md")
    for part in path.split("/"):
        if part in ("", ".", ".."):
            raise InvalidInput(
                f"{path!r:.100} is no path of an entry: it is like notes/today.md, relative and without '.' or '..'"
            )
    return _composed(path)


def checked_prefix(prefix: object) -> str:
    """The beginning of a path; it may be empty and end anywhere."""
    if not isinstance(prefix, str):
        raise InvalidInput(f"the beginning of a path is text, not {prefix!r:.100}")
    _check_characters(prefix)
    return _composed(prefix)


def checked_content(content: object) -> bytes:
    if not isinstance(content, bytes):
        raise InvalidInput(f"the content of an entry is bytes, not {type(content).__name__}")
    if len(content) > ENTRY_BYTES:
        raise TooLarge(f"an entry of a shelf has at most {ENTRY_BYTES} bytes, not {len(content)}")
    return content


def as_bytes(content: str | bytes) -> bytes:
    """Text as UTF-8; bytes as they are."""
    if not isinstance(content, str):
        return content
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"the text of an entry cannot have the character {content[error.start]!r}: write it as bytes"
        ) from error


def checked_version(version: object) -> Version | None:
    if version is None:
        return None
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise InvalidInput(f"if_version is the version of an entry or {ABSENT!r}, not {version!r:.100}")
    return version


def checked_key(key: object) -> str:
    if not isinstance(key, str) or len(key) > KEY_CHARS:
        raise InvalidInput(f"the key of a write is text of at most {KEY_CHARS} characters")
    return key


def checked_limit(limit: object) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= PAGE_MOST:
        raise InvalidInput(f"a page has 1 to {PAGE_MOST} entries, not {limit!r:.100}")
    return limit


def _check_characters(path: str) -> None:
    if len(path.encode("utf-8", "replace")) > PATH_BYTES:
        raise InvalidInput(f"the path of an entry has at most {PATH_BYTES} bytes")
    for character in path:
        # The last characters of Unicode stand for nothing, and the store's lists end there.
        if character == "\\" or character >= "\U0010fffe" or unicodedata.category(character) in _UNFIT:
            raise InvalidInput(f"the path of an entry cannot have the character {character!r}")


def _composed(path: str) -> str:
    composed = unicodedata.normalize("NFC", path)
    if len(composed.encode()) > PATH_BYTES:  # a few characters grow
        raise InvalidInput(f"the path of an entry has at most {PATH_BYTES} bytes")
    return composed
