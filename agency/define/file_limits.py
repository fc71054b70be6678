"""What the files of one thread may take. Agents write what they like, so the installation says how much that may be."""

from __future__ import annotations

from dataclasses import dataclass

from agency.errors import TooLarge


@dataclass(frozen=True, slots=True)
class FileLimits:
    """`each` and `together` are bytes, `most` is a number of files."""

    each: int = 8_000_000
    most: int = 10_000
    together: int = 67_108_864

    def check(self, path: str, size: int, others: int, taken: int) -> None:
        """Refuse a file of so many bytes, beside so many others that take so much."""
        if size > self.each:
            raise TooLarge(f"file {path!r:.200} has {size} bytes; {self.each} are accepted (AGENCY_FILE_BYTES)")
        if others >= self.most:
            raise TooLarge(f"the thread has {others} files already, and {self.most} are accepted (AGENCY_FILES_MOST)")
        if taken + size > self.together:
            raise TooLarge(
                f"with {path!r:.200} the files of the thread would have {taken + size} bytes; {self.together} are "
                "accepted (AGENCY_FILES_BYTES): delete some"
            )


FILE_LIMITS = FileLimits()
