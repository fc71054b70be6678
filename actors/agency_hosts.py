"""Which agency host an agency lives in. Its id tells, so that no process has to be asked and none can disagree.

The agency hosts of an installation have numbers, and there are as many of them from its start to its stop. One that
dies is started again under the same name, and finds in the files what its agencies were doing.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

PREFIX = "AgencyHost-"


def names_of(many: int) -> tuple[str, ...]:
    """The names of so many agency hosts."""
    return tuple(f"{PREFIX}{number}" for number in range(1, many + 1))


def home_of(agency: str, hosts: Sequence[str]) -> str:
    """The one that an agency lives in."""
    return hosts[crc32(agency.encode()) % len(hosts)]
