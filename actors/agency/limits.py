"""How much an agency may store in the control plane, by the installation's settings.

Only what is new is measured: what was stored before a limit was set stays as it is, can be read, and starts threads.
The code's own blueprints are not measured, because who writes them runs the installation. Every refusal says what
was given, what is accepted, and which setting says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from pydantic import BaseModel, JsonValue
from pydantic_core import to_json

from actors.agency.definitions import Definitions
from actors.agency.store import AgencyStore
from actors.settings import Settings
from agency.define.blueprint import Blueprint
from agency.errors import TooLarge, TooMany


class StorageLimits:
    def __init__(self, settings: Settings, store: AgencyStore) -> None:
        self._settings = settings
        self._store = store
        self._definitions = Definitions(store)

    def check_shape(self, name: object, fields: Mapping[str, JsonValue]) -> None:
        """Refuse a blueprint of too many values, or too deep ones, before anything is made of it: an agent may define
        agents, so what follows looks at deep ones again and again."""
        values: list[JsonValue] = [*fields.values()]
        found = depth = 0
        while values:
            found, depth = found + len(values), depth + 1
            self._within("blueprint_values", f"blueprint {name!r:.100} has at least", found, "values")
            self._within("blueprint_depth", f"blueprint {name!r:.100} has values at least", depth, "deep")
            values = [each for value in values for each in _inside(value)]

    def check_blueprint(self, blueprint: Blueprint) -> None:
        """Refuse a blueprint that is too large, or one too many."""
        whose = f"of blueprint {blueprint.name!r}"
        self._within("prompt_chars", f"the prompt {whose} has", len(blueprint.prompt), "characters")
        lists: Mapping[str, tuple[str, ...]] = {
            "tags": blueprint.tags,
            "tools": blueprint.tools,
            "middleware": blueprint.middleware,
        }
        for field, names in lists.items():
            self._within("blueprint_names", f"the {field} {whose} are", len(names), "names")
        size = _size(blueprint)
        self._within("blueprint_bytes", f"blueprint {blueprint.name!r} has", size, "bytes")
        before, others, taken = self._definitions.blueprint_sizes(blueprint.name)
        if before is None:
            self._room_for_one("blueprints_most", others, "blueprints of its own")
        if size > (before or 0):
            self._within("catalogue_bytes", "with it, the agency's own blueprints would have", taken + size, "bytes")

    def check_defined(self, blueprint: Blueprint, agents: Iterable[Blueprint]) -> None:
        """Refuse a blueprint that defines too many agents inside of itself: each is checked like the whole of it."""
        most = self._settings.blueprint_names
        defined = sum(1 for _ in islice(agents, most + 1))
        self._within("blueprint_names", f"blueprint {blueprint.name!r} defines at least", defined, "agents")

    def check_provider(self, name: str, entry: BaseModel) -> None:
        self._within("provider_bytes", f"provider {name!r} has", _size(entry), "bytes")
        own = self._definitions.provider_names()
        if name not in own:
            self._room_for_one("providers_most", len(own), "providers of its own")

    def check_policy(self, policy: BaseModel) -> None:
        self._within("policy_bytes", "the policy has", _size(policy), "bytes")

    def check_new_key(self) -> None:
        self._room_for_one("keys_most", int(self._store.rows("SELECT count(*) FROM keys")[0][0]), "keys")

    def check_schedule(self, schedule: BaseModel) -> None:
        self._within("schedule_bytes", "the schedule has", _size(schedule), "bytes")

    def check_new_schedule(self, known: int) -> None:
        self._room_for_one("schedules_most", known, "schedules")

    def check_creation(self, *begins_with: object) -> None:
        """Of what a new thread begins with; its blueprint was measured when it was stored."""
        self._within("creation_bytes", "what the new thread begins with has", len(to_json(begins_with)), "bytes")

    def _within(self, setting: str, what: str, given: int, unit: str) -> None:
        most: int = getattr(self._settings, setting)
        if given > most:
            raise TooLarge(f"{what} {given} {unit}; {most} are accepted (AGENCY_{setting.upper()})")

    def _room_for_one(self, setting: str, there: int, what: str) -> None:
        most: int = getattr(self._settings, setting)
        if there >= most:
            raise TooMany(
                f"the agency has {there} {what}, and {most} are accepted (AGENCY_{setting.upper()}): delete one first"
            )


def _inside(value: JsonValue) -> Iterable[JsonValue]:
    match value:
        case dict():
            return value.values()
        case list() | tuple():
            return value
        case _:
            return ()


def _size(model: BaseModel) -> int:
    return len(model.model_dump_json().encode())
