"""An agency's catalogue: the blueprints that threads can be made from, and the providers that models are called at.

Both come from several sources, of which the nearest counts: the agency's own entries are in the place of the
installation's settings, and those in the place of the code's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import JsonValue, ValidationError

from actors.agency import resolving
from actors.agency.context import AgencyContext
from actors.agency.definitions import Definitions
from actors.agency.limits import StorageLimits
from actors.agency.pages import check_limit, merged
from actors.agency.store import Section
from actors.operations import operation
from agency.api.bodies import BlueprintPage, ProviderPage
from agency.api.resolved import ResolvedBlueprint
from agency.api.tenancy import BlueprintInfo, Layer, ProviderInfo
from agency.clock import now_ms
from agency.define import safety
from agency.define.blueprint import Blueprint, check_models
from agency.define.options import RunOptions
from agency.errors import AgencyError, InvalidInput, NotFound
from agency.events import timestamp
from agency.guarded.addresses import AddressGuard, Refused
from agency.key_rules import FOR_AGENCIES, sections_in
from agency.models.providers.entry import TELLS_USAGE, GuardedProvider, Provider, ProviderName
from agency.names import check_name
from agency.secrets import NoSecret, named_in
from agency.wire import explain, sayable

READ_AT_ONCE = 100_000
"""After so many bytes of blueprints, other agencies have their turns. One costs as much as so many bytes more."""
SMALL = 1_000

KNOWN_CHARS = 2_000
VOUCHED_MOST = 100
"""So many sections of a blueprint that the owner has set are remembered, the latest."""

_FIELDS = {field.alias: name for name, field in Blueprint.model_fields.items()}
"""A blueprint's fields, by the names that they have outside."""


class Catalogue:
    def __init__(self, context: AgencyContext) -> None:
        self._context = context
        self._store = context.store
        self._definitions = Definitions(context.store)
        self._limits = StorageLimits(context.settings, context.store)
        self._changing = asyncio.Lock()

    # Providers.

    @operation
    async def providers(self, after: str = "", limit: int = 100) -> ProviderPage:
        """Every provider that models can be named with, by name; the agency's own in the place of the others."""
        check_limit(limit, "providers")
        own = self._definitions.provider_page(after, limit, self._context.settings.page_bytes)
        known = {name: ProviderInfo(name=name, source="code") for name in self._context.system().provider_names}
        known |= {name: ProviderInfo(name=name, source="settings") for name in self._context.settings.providers}
        names, more = merged(own, after, known, limit)
        known |= {name: _provider_info(name, *row) for name, *row in own.rows}
        return ProviderPage(providers=tuple(known[name] for name in names), next=names[-1] if more else None)

    @operation
    async def put_provider(self, name: ProviderName, entry: Provider, by: Layer = "owner") -> ProviderInfo:
        """Add a provider, or put another in its place. It counts for every model call that begins from now on. One that
        the owner sets may be anywhere, with any key for agencies; one of an admin of the agency, where the settings of
        the installation let it."""
        _check_own(entry)
        if by == "agency":
            self._check_outgoing(entry)
        for model in entry.prices:
            check_name(model, "a model's name")
        self._limits.check_provider(name, entry)
        self._store.put_provider(name, entry, timestamp(now_ms()), by)
        await self._context.installation.announce(self._context.id)
        return _provider_info(name, *self._definitions.stored_provider(name))

    @operation
    async def delete_provider(self, name: str) -> None:
        """Remove one of the agency's own providers. If it replaced one of the installation, that counts again."""
        if name not in self._definitions.provider_names():
            raise NotFound(f"the agency has no provider {name!r:.100} of its own")
        self._store.drop_provider(name)
        await self._context.installation.announce(self._context.id)

    def _check_outgoing(self, entry: Provider) -> None:
        """Refuse an address that agencies may not reach, keys that this one may not use there, and what would keep the
        provider from saying what it used."""
        if TELLS_USAGE in entry.body:
            raise InvalidInput(f"body: {TELLS_USAGE!r} is for the owner to set, because budgets go by what it asks for")
        outgoing = self._context.settings.outgoing
        try:
            AddressGuard(outgoing.private_hosts).check_url(entry.address)
            GuardedProvider(**dict(entry), agency=self._context.id, outgoing=outgoing).check_keys()
        except (Refused, NoSecret) as error:
            raise InvalidInput(str(error)) from error

    # Blueprints.

    @operation
    async def blueprints(self, after: str = "", limit: int = 1_000) -> BlueprintPage:
        """Every agent that threads can be made for, by name; the agency's own in the place of the code's."""
        check_limit(limit, "blueprints")
        system, most = self._context.system(), self._context.settings.page_bytes
        own = self._definitions.blueprint_page(after, limit, most)
        names, more = merged(own, after, system.agents, limit)
        stored = {name: row for name, *row in own.rows}
        found: list[BlueprintInfo] = []
        read = 0
        for name in names:
            coded = system.agents.get(name)
            if name in stored:
                found.append(self._own_info(*stored[name]))
                read += SMALL + len(stored[name][0])
            elif coded is not None:
                found.append(_as_info(coded, "static", system.risky_tools(coded)))
            if read > READ_AT_ONCE:
                await self._context.installation.give_way(self._context.id)
                read = 0
        return BlueprintPage(blueprints=tuple(found), next=names[-1] if more else None)

    def _own_info(self, body: str, created: str, updated: str) -> BlueprintInfo:
        own, system = Blueprint.model_validate_json(body), self._context.system()
        warnings, risky = system.without_effect(own), system.risky_tools(own)
        if risky and own.unattended is None:
            warnings = (*warnings, safety.warning(risky))
        return _as_info(own, "agency", risky, created_at=created, updated_at=updated, warnings=warnings)

    @operation
    async def put_blueprint(self, fields: Mapping[str, JsonValue], by: Layer = "owner") -> BlueprintInfo:
        """Add a blueprint, or change one: fields that are not given stay as they were. It counts for threads that are
        made from now on. Tags and sections of `config` that mean nothing here are kept, and named in its `warnings`.
        One that would run risky tools without a person is refused, unless it says that it is `unattended`."""
        async with self._changing:  # a change of what another caller is just changing would undo that
            blueprint = await self._changed(fields, {})
            self._check_new(blueprint, by)
            self._store.put_blueprint(blueprint, timestamp(now_ms()), self._vouched(blueprint, by))
        await self._context.installation.give_way(self._context.id)
        return self._own_info(*self._definitions.stored_blueprint(blueprint.name))

    def _vouched(self, blueprint: Blueprint, by: Layer) -> list[Section]:
        """All the sections of a blueprint's configuration that the owner has set, now or before."""
        vouched = self._store.vouched(blueprint.name)
        if by == "owner":  # what is there already may be an admin's, and changing something else is no word about it
            before = self._blueprint(blueprint.name)
            known = [*vouched, *(() if before is None else sections_in(before.config))]
            vouched += [each for each in sections_in(blueprint.config) if each not in known]
        return vouched[-VOUCHED_MOST:]

    @operation
    async def resolve_blueprint(self, fields: Mapping[str, JsonValue], by: Layer = "owner") -> ResolvedBlueprint:
        """What threads of a blueprint would have if it were put so: middleware, tools, models, and why it would be
        refused. Nothing is stored."""
        system = self._context.system()
        blueprint = await self._changed(fields, {"prompt": "(none yet)"})
        found, problem = ResolvedBlueprint(known_tags=resolving.known_tags(system)), None
        try:
            self._limits.check_blueprint(blueprint)
        except AgencyError as error:
            return found.model_copy(update={"problem": str(error)})
        try:
            self._check_meaning(blueprint, by)
        except AgencyError as error:
            problem = str(error)
        try:
            agents = {**system.agents, **await self._all_own()}
            middleware, tools, unknown = await resolving.parts_of(system, blueprint, agents)
        except AgencyError:  # a section of its configuration is wrong, and the problem says so
            return found.model_copy(update={"problem": problem})
        warnings = system.without_effect(blueprint)
        return ResolvedBlueprint(
            problem=problem,
            warnings=warnings if unknown is None else (*warnings, unknown),
            models=tuple(choice.model for choice in system.chain(blueprint.model)),
            middleware=middleware,
            tools=tools,
            known_tags=found.known_tags,
        )

    @operation
    async def delete_blueprint(self, name: str) -> None:
        """Remove one of the agency's own blueprints. If it replaced one of the code, that counts again."""
        if self._store.blueprint(name) is None:
            raise NotFound(f"the agency has no blueprint {name!r} of its own")
        self._store.drop_blueprint(name)

    async def _changed(self, fields: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> Blueprint:
        """A blueprint with these fields in the place of those that it has; one that is not there has `new`. It is made
        in a worker thread: looking into a large one takes its time."""
        name = fields.get("name")
        self._limits.check_shape(name, fields)
        before = self._blueprint(name) if isinstance(name, str) else None
        return await asyncio.to_thread(_made_of, before, fields, new)

    async def _all_own(self) -> dict[str, Blueprint]:
        """The agency's own blueprints. All of them may be large, so they are read in turns."""
        found: dict[str, Blueprint] = {}
        after: str | None = ""
        while after is not None:
            page = self._definitions.blueprint_page(after, READ_AT_ONCE // SMALL, READ_AT_ONCE)
            found |= {name: Blueprint.model_validate_json(body) for name, body, *_ in page.rows}
            after = page.rows[-1][0] if page.more else None
            await self._context.installation.give_way(self._context.id)
        return found

    def _check_new(self, blueprint: Blueprint, by: Layer) -> None:
        self._limits.check_blueprint(blueprint)
        self._check_meaning(blueprint, by)

    def _check_meaning(self, blueprint: Blueprint, by: Layer) -> None:
        """Of one that is not too large: whether what it says is there, and allowed."""
        self._check_defined(blueprint)
        self._check_names(blueprint)
        self._check_references(blueprint, by)
        self.check(blueprint)
        if blueprint.status != "disabled":  # one that is older than the rule can be disabled, too
            self._context.system().check_new(blueprint, self._usable_providers())

    def _check_defined(self, blueprint: Blueprint) -> None:
        defined = self._context.system().with_own(blueprint)
        next(defined)  # itself
        self._limits.check_defined(blueprint, defined)

    def _check_names(self, blueprint: Blueprint) -> None:
        """Of models and sections. What was stored before may stay as it is."""
        before = self._blueprint(blueprint.name)
        if blueprint.model is not None and (before is None or before.model != blueprint.model):
            check_models(blueprint.model)
        for section in blueprint.config.keys() - (set() if before is None else before.config.keys()):
            check_name(section, "the name of a section of `config`")

    def _blueprint(self, name: str) -> Blueprint | None:
        return self._store.blueprint(name) or self._context.system().agents.get(name)

    def _check_references(self, blueprint: Blueprint, by: Layer) -> None:
        """All that a configuration names counts, also for middleware that may come. What the code says for this agent
        may stay as it is, and what the owner has set."""
        coded = self._context.system().agents.get(blueprint.name)
        said = coded.config if coded is not None else {}
        own = {name: section for name, section in blueprint.config.items() if section != said.get(name)}
        _check_named("blueprint", named_in(own))
        if by == "owner":
            return
        vouched = self._store.vouched(blueprint.name)
        for name, section in sections_in(own):
            for reference in () if (name, section) in vouched else sorted(set(named_in(section))):
                why = self._context.settings.outgoing.refuses_in(self._context.id, reference, name)
                if why is not None:
                    raise InvalidInput(why)

    # For new threads.

    def given(self, fields: Mapping[str, JsonValue]) -> Blueprint:
        """The blueprint that a thread gives its child. It is measured unless it is configured as one that is known."""
        name = fields.get("name")
        known = self._blueprint(name) if isinstance(name, str) else None
        if known is not None and known.config == fields.get("config", {}):
            return Blueprint.model_validate(fields)
        self._limits.check_shape(name, fields)
        blueprint = Blueprint.model_validate(fields)
        self._check_defined(blueprint)
        return blueprint

    def active(self, agent_type: str) -> Blueprint:
        """The blueprint of an agent that new threads can be made for."""
        blueprint = self._blueprint(agent_type)
        if blueprint is None:
            known = ", ".join(sorted(self._definitions.blueprint_names() | self._context.system().agents.keys()))
            raise NotFound(f"there is no agent {agent_type!r:.100}; there are {known or 'none'}"[:KNOWN_CHARS])
        if blueprint.status != "active":
            raise InvalidInput(f"agent {agent_type!r} is {blueprint.status} and starts no threads")
        return blueprint

    def check(self, blueprint: Blueprint) -> None:
        """Refuse a blueprint whose models are not there, or that is configured wrongly: its threads could not run."""
        self._context.system().check_usable(blueprint, self._usable_providers())

    def check_options(self, blueprint: Blueprint, options: RunOptions) -> None:
        """Refuse options that a run of the agent cannot have; which tools it has, a thread knows."""
        self._context.system().check_options(blueprint, options, self._usable_providers())

    def _usable_providers(self) -> Mapping[str, Provider]:
        own = {each.name: each.entry for each in self._store.providers()}
        return {**self._context.settings.providers, **own}


ALLOWED = f"env:{FOR_AGENCIES}"


def _check_named(what: str, named: Iterable[str]) -> None:
    """Refuse references by which the installation's secrets would go to wherever an agency likes."""
    if strange := sorted(each for each in set(named) if not each.startswith(ALLOWED)):
        raise InvalidInput(
            f"an agency's {what} refers to variables whose names begin with {FOR_AGENCIES}, as in '{ALLOWED}MINE', "
            f"and to nothing else; not to {', '.join(strange)}"
        )


def _check_own(entry: Provider) -> None:
    _check_named("provider", entry.references)
    if entry.base_url is None and entry.key is None:
        raise InvalidInput(
            f"an agency's provider needs a `key` of its own, as in '{ALLOWED}MINE', or the `baseUrl` of a server that "
            "wants none: without either it would use the installation's key"
        )


def _provider_info(name: str, body: str, set_by: Layer, made: str, changed: str) -> ProviderInfo:
    entry = Provider.model_validate_json(body)
    return ProviderInfo(name=name, source="agency", entry=entry, set_by=set_by, created_at=made, updated_at=changed)


def _made_of(before: Blueprint | None, fields: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> Blueprint:
    known = before.model_dump(mode="json", by_alias=False) if before is not None else new
    given = {_FIELDS.get(field, field): value for field, value in fields.items()}
    try:
        return safety.asked(Blueprint.model_validate(sayable({**known, **given})))
    except ValidationError as error:
        raise InvalidInput(f"wrong blueprint: {explain(error)}") from error


def _as_info(
    blueprint: Blueprint, source: Literal["static", "agency"], risky: tuple[str, ...], **more: object
) -> BlueprintInfo:
    fields = {**blueprint.model_dump(by_alias=False), "source": source, "unattended_tools": risky, **more}
    return BlueprintInfo.model_validate(fields)
