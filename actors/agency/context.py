"""What the parts of one agency share: its file, its settings, the agents' code, and the installation around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from actors.address import Address, Files
from actors.agency.installation import Installation
from actors.agency.pace import Pace
from actors.agency.store import AgencyStore
from actors.settings import Settings
from agency.define.system import AgentSystem
from agency.errors import InvalidInput
from agency.names import check_name
from agency.wire import sayable_text

System = Callable[[], AgentSystem]
"""The agents' code. It is loaded before an agency is called; updates about threads may come earlier."""


@dataclass(slots=True)
class AgencyContext:
    id: str
    store: AgencyStore
    settings: Settings
    system: System
    installation: Installation
    deleting: bool = False
    """From when the agency begins to be deleted: nothing new begins, and updates are no longer written."""
    pace: Pace = field(init=False)
    """Of threads that it starts by itself."""

    def __post_init__(self) -> None:
        self.pace = Pace(self.settings.starts_per_second)

    @property
    def files(self) -> Files:
        return Files(self.settings.data_dir)

    def address(self, thread_id: str) -> Address:
        return Address(self.id, thread_id)


def checked_name(name: object, whose: str = "an agency") -> str:
    if not isinstance(name, str) or not 1 <= len(name.strip()) <= 200:
        raise InvalidInput(f"{whose}'s name is text of 1 to 200 characters")
    return check_name(sayable_text(name.strip()), f"{whose}'s name")
