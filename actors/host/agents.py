"""The agents that threads of an agency can start, as a host knows them: read once, and shared by all its threads.

A thread looks at them when it wakes, and keeps what it saw. An agency may have many large blueprints and a thousand
threads, so each thread that wakes gets the same objects. The agency's file says with a stamp whether they have changed
since, which is looked at each time: a change counts for every thread that wakes after it was written, also one of
which this host was told nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from actors.address import Address, Files
from actors.agency.peek import peek_blueprints, peek_blueprints_stamp
from agency.define.blueprint import Blueprint
from agency.define.system import AgentSystem

_Read = Mapping[str, tuple[bytes, Blueprint]]
"""The agency's own, with digests of their JSON."""


@dataclass(frozen=True, slots=True)
class _AgencyAgents:
    stamp: str
    own: _Read
    agents: Mapping[str, Blueprint]


class AgentsCache:
    def __init__(self, data_dir: Path, system: AgentSystem) -> None:
        self._files = Files(data_dir)
        self._system = system
        self._known: dict[str, _AgencyAgents] = {}

    def of(self, agency: str) -> Mapping[str, Blueprint]:
        """The active agents, by name: the agency's own in the place of the code's."""
        path, known = self._files.of(Address(agency)), self._known.get(agency)
        stamp = peek_blueprints_stamp(path)
        if stamp is None:  # it is just being made, or its file cannot be read now
            return self._active({}) if known is None else known.agents
        if known is None or known.stamp != stamp:
            own = _read(path, {} if known is None else known.own)
            known = self._known[agency] = _AgencyAgents(stamp, own, self._active(own))
        return known.agents

    def keep(self, agencies: Collection[str]) -> None:
        """Forget the agents of all other agencies."""
        for agency in self._known.keys() - set(agencies):
            del self._known[agency]

    def _active(self, own: _Read) -> Mapping[str, Blueprint]:
        known = {**self._system.agents, **{name: blueprint for name, (_, blueprint) in own.items()}}
        return {name: blueprint for name, blueprint in known.items() if blueprint.status == "active"}


def _read(path: Path, before: _Read) -> _Read:
    """What has not changed stays the same object: threads that are awake hold it, too."""
    found: dict[str, tuple[bytes, Blueprint]] = {}
    for name, body in peek_blueprints(path):
        digest = hashlib.sha256(body.encode()).digest()
        if (known := before.get(name)) is not None and known[0] == digest:
            found[name] = known
        else:
            found[name] = digest, Blueprint.model_validate_json(body)
    return found
