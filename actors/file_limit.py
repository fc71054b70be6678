"""The limit of open files. Its default is low, and a process that has reached it cannot even look at anything."""

from __future__ import annotations

import resource

MOST_FILES = 65_536
"""More than a process of ours needs. Some systems allow a billion, and programs that close them all take minutes."""


def raise_file_limit() -> int:
    """Raise this process's limit of open files as far as it may by itself; the limit from then on."""
    soft, hard = (_number(each) for each in resource.getrlimit(resource.RLIMIT_NOFILE))
    wanted = min(hard, MOST_FILES)
    if soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return wanted


def file_limit() -> int:
    """How many files this process may have open."""
    return _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _number(limit: int) -> int:
    return MOST_FILES if limit == resource.RLIM_INFINITY else limit
