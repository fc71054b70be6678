"""The builder: an `AgentSystem` is the tools, middleware and agents that belong together, defined once in code.

    system = (
        AgentSystem(default_model="demo:default")
        .defaults()
        .add_tool(lookup, tags=["billing"])
        .add_agent(name="support", description="Answers customers.", prompt="You are …", tags=["default", "billing"])
    )

An agent gets every tool and middleware that shares a tag with it, and those that it brings or names itself, each once,
in the order of registration. What is
wrong with one definition is said at that definition; what is wrong between them is said when the system is first used.
Large because everything that a system is made of, and is asked for, is here in one class; what checks it is elsewhere.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from agency.define import safety
from agency.define.blueprint import Blueprint, Isolation, ModelChoice, ModelName, chain_of
from agency.define.bringing import bring, is_same
from agency.define.code import CodeRunner
from agency.define.export import Exported, load_exporter
from agency.define.hooks import AnyMiddleware, Middleware, check_taken, given_to
from agency.define.middleware_checks import check_definition, section_of
from agency.define.options import RunOptions, check_size
from agency.define.output import OutputType, as_schema, is_output_type
from agency.define.provided import ProvidesDeps, Provision
from agency.define.running import RunsAgents
from agency.define.stock import stock_middleware
from agency.define.tools import Tool, as_tool
from agency.errors import DefinitionError, InvalidInput, NotFound
from agency.json_schema import Schema
from agency.models.demo import DemoModel
from agency.models.interface import Capability, Listed, Model, ModelParams, Prepared, capabilities
from agency.models.providers import STOCK, STOCK_KEYS
from agency.models.providers.entry import Provider
from agency.observe.observers import Observer, Observers
from agency.own_names import check_names
from agency.secrets import Declared, Secret, references_in
from agency.tracebacks import said_where
from agency.turn.modes import ModeName
from agency.turn.state import Limits
from agency.wire import explain

IDLE_SECTIONS_TOLD = 20
"""So many sections of a configuration that have no effect are named."""

_TAG = re.compile(r"[a-zA-Z0-9_-]+")
_MODEL = re.compile(r"[a-z][a-z0-9_-]*:\S(?:.*\S)?")

NO_PROVIDERS: Mapping[str, Provider] = {}
OPEN_PROVIDERS = 200
"""So many entries are kept open; those that were opened first are let go."""


class AgentSystem(RunsAgents, ProvidesDeps):
    """Agents, tools and middleware that belong together, and the models that they use.

    Its methods return the system, so that calls can be chained. What refers to something that it does not have raises
    `DefinitionError` when the system is first used.
    """

    def __init__(
        self,
        default_model: ModelName,
        *,
        providers: Mapping[str, Model | Provider] | None = None,
        code_runner: CodeRunner | None = None,
    ) -> None:
        """`providers` say where models are, by the word that stands before the colon in a model's name: entries for
        servers that speak a known API, or models of your own."""
        if not _MODEL.fullmatch(str(default_model)):
            raise DefinitionError(f"default_model {default_model!r} must read provider:model, as in 'demo:default'")
        self.default_model = default_model
        self.code_runner = code_runner
        self.observers = Observers()
        self.provision = Provision()
        self._entries = {name: each for name, each in (providers or {}).items() if isinstance(each, Provider)}
        own = {name: each for name, each in (providers or {}).items() if not isinstance(each, Provider)}
        self._providers: dict[str, Model] = {"demo": DemoModel(), **STOCK, **own}
        self._opened: dict[tuple[str, bytes], Model] = {}
        self._output_models: dict[bytes, type[BaseModel]] = {}
        self._tools: dict[str, tuple[Tool, frozenset[str]]] = {}
        self._middleware: dict[str, tuple[AnyMiddleware, frozenset[str]]] = {}
        self._agents: dict[str, Blueprint] = {}
        self._implied: set[str] = set()  # middleware that approvals of agents brought
        self._checked = False

    # Building.

    def defaults(self) -> AgentSystem:
        """Planning, filesystem and subagents, for every agent with the tag `default`."""
        for name in ("planning", "filesystem", "subagents"):
            self.use(stock_middleware(name), tags=["default"])
        return self

    def use(self, middleware: AnyMiddleware, tags: Iterable[str] = ()) -> AgentSystem:
        """Add a middleware, for agents that share one of these tags or of its own."""
        if not isinstance(middleware, Middleware):
            raise DefinitionError(f"use() takes an instance of Middleware, not {middleware!r}")
        if not getattr(middleware, "name", None):
            raise DefinitionError(f"middleware {type(middleware).__name__} has no name")
        where = f"middleware {middleware.name!r}"
        check_definition(middleware, where)
        if middleware.name in self._implied:  # the code adds itself what an agent's approvals brought
            self._implied.discard(middleware.name)
            del self._middleware[middleware.name]
        self._add(self._middleware, middleware.name, middleware, [*middleware.tags, *_tags(tags, where)], where)
        return self

    def add_tool(self, function: Tool | Callable[..., Any], tags: Iterable[str] = ("default",)) -> AgentSystem:
        """Add a tool, or a plain function as one, for agents that share one of these tags."""
        made = function if isinstance(function, Tool) else as_tool(function, sys._getframe(1).f_locals, {})
        where = f"tool {made.name!r}"
        self._add(self._tools, made.name, made, _tags(tags, where), where)
        return self

    @overload
    def add_agent(self, blueprint: Blueprint, /) -> AgentSystem: ...

    @overload
    def add_agent(
        self,
        *,
        name: str,
        description: str = "",
        prompt: str,
        tags: Sequence[str] = ("default",),
        tools: Sequence[str | Tool | Callable[..., Any]] = (),
        middleware: Sequence[str | AnyMiddleware] = (),
        model: str | Sequence[str | ModelChoice | Mapping[str, Any]] | None = None,
        requires: Sequence[Capability] = (),
        params: ModelParams | Mapping[str, Any] | None = None,
        output_schema: OutputType | None = None,
        config: Mapping[str, object] | None = None,
        status: str = "active",
        limits: Limits | Mapping[str, float | None] | None = None,
        mode: ModeName = "tools",
        isolation: Isolation = "shared",
        approvals: bool | Sequence[str | Tool] = False,
        unattended: bool = False,
    ) -> AgentSystem: ...

    def add_agent(self, *blueprint: Blueprint, **fields: Any) -> AgentSystem:
        """Add an agent: a `Blueprint`, or what one is made of. `model` is one, or a list: the next is asked when one
        fails. `output_schema` is what the result of a run must fit: a pydantic model or a JSON schema. `config` has a
        section for each middleware, by its name.

        The agent gets the tools and middleware that share a tag with it, and those in `tools` and `middleware`: objects
        that no other agent gets unless it names them, too, or names of what the system has. With `approvals`, a person
        is asked before calls of medium and high risk (the middleware `hitl`), or before those of the listed tools;
        without them, an agent with such tools must be `unattended`."""
        if not blueprint:
            fields = bring(self._tools, self._middleware, fields, sys._getframe(1).f_locals)
        if "approvals" in fields:
            fields = self._with_approvals(**fields)
        made = (*blueprint, self._new_blueprint(fields)) if fields or not blueprint else blueprint
        if len(made) != 1 or not isinstance(made[0], Blueprint):
            raise DefinitionError("add_agent takes a Blueprint, or keywords that make one")
        agent = made[0]
        if agent.name in self._agents:
            raise DefinitionError(f"agent {agent.name!r} is defined twice")
        self._check_mode(agent)
        self._agents[agent.name] = safety.asked(agent)
        self._checked = False
        return self

    def _with_approvals(self, *, approvals: bool | Sequence[str | Tool], **fields: Any) -> dict[str, Any]:
        """What makes an agent one with approvals: the tag of the middleware that asks, which is added if need be."""
        where = f"agent {fields.get('name')!r}"
        if approvals is False:
            return fields
        if approvals is not True:
            fields = safety.with_listed(fields, approvals, where)
        elif fields.get("unattended"):
            raise DefinitionError(f"{where} says both approvals=True and unattended=True; say one of them")
        if not any(mw.guards_risk and safety.TAG in tags for mw, tags in self._middleware.values()):
            self.use(stock_middleware(safety.TAG))
            self._implied.add(safety.TAG)
        tags = _tags(fields.get("tags", ("default",)), where)
        return {**fields, "tags": tags if safety.TAG in tags else [*tags, safety.TAG]}

    def _new_blueprint(self, fields: Mapping[str, Any]) -> Blueprint:
        given = {name: value for name, value in fields.items() if value is not None}
        where = f"agent {given.get('name')!r}"
        try:
            if "tags" in given:
                given["tags"] = _tags(given["tags"], where)
            if "output_schema" in given:
                given["output_schema"] = self.note_output(given["output_schema"])
            return Blueprint.model_validate(given)
        except InvalidInput as error:
            raise DefinitionError(f"{where}: {error}") from error
        except ValidationError as error:
            raise DefinitionError(f"{where}: {explain(error)}") from error

    def export(self, **settings: object) -> Exported:
        """What another program needs to serve this system itself: `export().handler` is an ASGI app with the API, the
        live events and the dashboard, alone or mounted inside another app. It joins the installation, and starts it if
        it does not run, as `agency serve` does.

        `settings` are those of an installation and a gateway, such as `data_dir` and `secret`, by the names of their
        AGENCY_… variables in small letters. Hosts import the system, so it must be a global name of a module; where
        that cannot be found out, `system="package.module:name"` says it.
        """
        return load_exporter()(self, settings)

    def note_output(self, wanted: OutputType) -> Schema:
        """The schema of a result, checked. If it is that of a pydantic model, results must be valid for that, too."""
        if not is_output_type(wanted):
            raise InvalidInput(f"output_schema is a pydantic model or a JSON schema, not {wanted!r:.100}")
        schema = as_schema(wanted)
        if isinstance(wanted, type):
            self._output_models[to_json(schema)] = wanted
        return schema

    def observe(self, observer: Observer) -> AgentSystem:
        """Have an observer told of every event that any thread of this system commits in this process."""
        self.observers.add(observer)
        return self

    def _add(self, registry: dict[str, Any], name: str, item: object, tags: Sequence[str], where: str) -> None:
        if name in registry and (registry[name][1] or not is_same(registry[name][0], item)):
            raise DefinitionError(f"{where} is registered twice")
        if not tags:
            raise DefinitionError(f"{where} has no tags, so no agent would get it")
        bad = [tag for tag in tags if not _TAG.fullmatch(tag)]
        if bad:
            raise DefinitionError(f"{where}: tags are letters, digits, '-' and '_', not {bad}")
        registry[name] = (item, frozenset(tags))
        self._checked = False

    # Using what was built.

    @property
    def agents(self) -> Mapping[str, Blueprint]:
        """Every agent, by name, checked against the rest of the system."""
        if not self._checked:
            self.check_agents()
        return self._agents

    def check_agents(self, providers: Mapping[str, Provider] = NO_PROVIDERS) -> None:
        """Check every agent; models may also be with these `providers`."""
        for blueprint in self._agents.values():
            self.check(blueprint, providers)
        self._checked = True

    def check(self, blueprint: Blueprint, providers: Mapping[str, Provider] = NO_PROVIDERS) -> None:
        """Raise `DefinitionError` where an agent refers to something that this system does not have, and neither do
        these `providers`."""
        if idle := self.without_effect(blueprint):
            raise DefinitionError(f"agent {blueprint.name!r}: {idle[0]}")
        self.check_usable(blueprint, providers)
        self.check_new(blueprint, providers)

    def check_new(self, blueprint: Blueprint, providers: Mapping[str, Provider] = NO_PROVIDERS) -> None:
        """Raise `DefinitionError` if a new definition of an agent, or of one inside of it, would run risky tools
        without a person, guards tools that it does not have, or names models that their provider does not have. Those
        that are stored already may."""
        for agent in self.with_own(blueprint):
            self._check_listed(agent, providers)
            safety.check(agent, self.tools_for(agent), self.middleware_for(agent), self.guards)

    def risky_tools(self, blueprint: Blueprint) -> tuple[str, ...]:
        """Which of the system's tools of medium and high risk an agent runs without asking a person."""
        found = safety.unguarded(self.tools_for(blueprint), self.middleware_for(blueprint))
        return tuple(tool.name for tool in found)

    @property
    def guards(self) -> tuple[str, ...]:
        """The tags that give an agent approvals."""
        return tuple(sorted({tag for mw, tags in self._middleware.values() if mw.guards_risk for tag in tags}))

    def check_usable(self, blueprint: Blueprint, providers: Mapping[str, Provider] = NO_PROVIDERS) -> None:
        """Raise `DefinitionError` if threads of an agent could not run; what has no effect may be there."""
        self._check_models(blueprint, providers)
        self._check_mode(blueprint)
        for tool in self.tools_for(blueprint):
            if tool.arguments.deps is not None:
                self.provision.check(f"tool {tool.name!r}", tool.arguments.deps)
        for middleware, config in self.middleware_for(blueprint):
            try:
                middleware.check(config, {**self._agents, blueprint.name: blueprint})
                for agent in middleware.own_agents(config):
                    self.check_usable(agent, providers)
            except DefinitionError as error:
                raise DefinitionError(f"agent {blueprint.name!r}: {error}") from error

    def without_effect(self, blueprint: Blueprint) -> tuple[str, ...]:
        """Which tags, names and sections of an agent's configuration mean nothing to this system, in words."""
        known = frozenset().union(*(tags for _, tags in [*self._tools.values(), *self._middleware.values()]))
        idle = [tag for tag in blueprint.tags if tag not in known and tag != "default"]
        found = [f"no tool or middleware has the tags {idle}; there are {sorted(known)}"] if idle else []
        found += _unknown("tool", blueprint.tools, self._tools)
        found += _unknown("middleware", blueprint.middleware, self._middleware)
        selected = sorted(middleware.name for middleware in self._selected(blueprint))
        configured = sorted(blueprint.config.keys() - {*selected, "tools"})
        left = len(configured) - IDLE_SECTIONS_TOLD
        own = [agent for mw, config in self.middleware_for(blueprint) for agent in mw.own_agents(config)]
        return (
            *found,
            *(f"agent {agent.name!r}: {each}" for agent in own for each in self.without_effect(agent)),
            *(
                f"config.{name} has no effect, because the agent gets no middleware of that name; it gets {selected}, "
                'and what is meant for tools goes into config["tools"]'
                for name in configured[:IDLE_SECTIONS_TOLD]
            ),
            *([f"{left} more sections of config have no effect"] if left > 0 else ()),
        )

    def check_options(
        self,
        blueprint: Blueprint,
        options: RunOptions,
        providers: Mapping[str, Provider] = NO_PROVIDERS,
        *,
        handed_down: bool = False,
    ) -> None:
        """Raise `InvalidInput` if a run of an agent cannot have these options. Those of a parent's run, handed down,
        may be for middleware that the agent does not have."""
        selected = [mw for mw, _ in self.middleware_for(blueprint)]
        if not handed_down:
            check_size(options)
            check_taken(selected, options)
        given_to(selected, options)
        if options.model is not None:
            try:
                chosen = blueprint.model_copy(update={"model": options.model})
                self._check_models(chosen, providers)
                self._check_listed(chosen, providers)
            except DefinitionError as error:
                raise InvalidInput(f"model: {error}") from error

    def _check_models(self, blueprint: Blueprint, providers: Mapping[str, Provider]) -> None:
        lacking: dict[str, list[str]] = {}
        for choice in self.chain(blueprint.model):
            model, name = self.model(choice.model, providers)
            if missing := {*choice.requires, *blueprint.requires} - capabilities(model, name):
                lacking[choice.model] = sorted(missing)
        if len(lacking) == len({choice.model for choice in self.chain(blueprint.model)}):
            raise DefinitionError(f"agent {blueprint.name!r}: no model can do what is required; they lack {lacking}")
        if blueprint.output_schema is not None:
            try:
                as_schema(blueprint.output_schema)
            except InvalidInput as error:
                raise DefinitionError(f"agent {blueprint.name!r}: {error}") from error

    def _check_listed(self, blueprint: Blueprint, providers: Mapping[str, Provider]) -> None:
        for choice in self.chain(blueprint.model):
            model, name = self.model(choice.model, providers)
            if isinstance(model, Listed) and name not in model.model_names:
                said = f"there is no model {choice.model!r}; that provider has {', '.join(sorted(model.model_names))}"
                raise DefinitionError(f"agent {blueprint.name!r}: {said}")

    def _check_mode(self, blueprint: Blueprint) -> None:
        if blueprint.mode == "code" and self.code_runner is None:
            raise DefinitionError(f"agent {blueprint.name!r} works in code mode: give AgentSystem a code_runner")

    def tool(self, name: str) -> Tool:
        """One of the system's own tools, by name."""
        if name not in self._tools:
            raise NotFound(f"the system has no tool {name!r}")
        return self._tools[name][0]

    def tools_for(self, blueprint: Blueprint) -> list[Tool]:
        return [made for made, tags in self._tools.values() if _has(blueprint.tags, blueprint.tools, made.name, tags)]

    def middleware_for(self, blueprint: Blueprint) -> list[tuple[AnyMiddleware, Any]]:
        """The agent's middleware, each with its section of the agent's configuration."""
        return [(mw, section_of(mw, blueprint)) for mw in self._selected(blueprint)]

    def _selected(self, blueprint: Blueprint) -> list[AnyMiddleware]:
        named = blueprint.middleware
        return [mw for mw, tags in self._middleware.values() if _has(blueprint.tags, named, mw.name, tags)]

    @property
    def tagged(self) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        """By tag, the names of the tools and of the middleware that it brings."""
        both = (self._tools, self._middleware)
        known = {tag for registry in both for _, tags in registry.values() for tag in tags}
        return {tag: (_having(tag, self._tools), _having(tag, self._middleware)) for tag in known}

    @property
    def middleware(self) -> tuple[AnyMiddleware, ...]:
        """All that agents can have."""
        return tuple(middleware for middleware, _ in self._middleware.values())

    @property
    def secrets(self) -> list[Declared]:
        """Where the secrets are that its tools, its middleware and its agents' configurations name."""
        found = [declared_by(tool) for tool, _ in self._tools.values()]
        found += [declared_by(middleware) for middleware in self.middleware]
        for name, blueprint in self._agents.items():
            sections = [config for each in self.with_own(blueprint) for _, config in self.middleware_for(each)]
            found.append(Declared(f"agent {name!r}", {}, frozenset(references_in(sections))))
        return [each for each in found if each.references]

    def has_section(self, name: str, section: object) -> bool:
        """Whether the code itself configures a middleware so, for any of its agents."""
        return any(each.config.get(name) == section for agent in self._agents.values() for each in self.with_own(agent))

    def with_own(self, blueprint: Blueprint) -> Iterator[Blueprint]:
        """An agent, and those that its configuration defines."""
        yield blueprint
        for middleware, config in self.middleware_for(blueprint):
            for agent in middleware.own_agents(config):
                yield from self.with_own(agent)

    @property
    def references(self) -> frozenset[Secret]:
        """All that its code refers to, models included."""
        entries = (entry.references for entry in self._entries.values())
        return frozenset(STOCK_KEYS.values()).union(*entries, *(each.references for each in self.secrets))

    @property
    def providers(self) -> Mapping[str, Provider]:
        """The entries that were given in code."""
        return self._entries

    @property
    def provider_names(self) -> frozenset[str]:
        """All that may stand before the colon in a model's name."""
        return frozenset({*self._providers, *self._entries})

    def model(self, name: str, providers: Mapping[str, Provider] = NO_PROVIDERS) -> tuple[Model, str]:
        """The provider of a model, and the model's name there. `providers` go before those that were given in code. A
        name without a provider belongs to that of the default model."""
        provider, _, model = self.whole_name(name).partition(":")
        entry = providers.get(provider) or self._entries.get(provider)
        if entry is not None:
            return self._open(provider, entry), model
        if provider not in self._providers:
            known = ", ".join(sorted({*self._providers, *self._entries, *providers}))
            raise DefinitionError(f"no provider named {provider!r} for model {name!r}; there are {known}")
        return self._providers[provider], model

    def whole_name(self, model: str) -> str:
        """A model's name with its provider, which is that of the default model if the name has none."""
        return model if ":" in model else f"{self.default_model.partition(':')[0]}:{model}"

    def chain(self, models: str | Sequence[str | ModelChoice] | None) -> tuple[ModelChoice, ...]:
        """The models to ask, first choice first, by their whole names; None is the default model."""
        listed = chain_of(models or self.default_model)
        return tuple(each.model_copy(update={"model": self.whole_name(each.model)}) for each in listed)

    def _open(self, name: str, entry: Provider) -> Model:
        """One model for each entry, so that all who use it share its connections."""
        key = (name, entry.__pydantic_serializer__.to_json(entry))
        if key not in self._opened:
            from agency.models.providers import open_provider

            while len(self._opened) >= OPEN_PROVIDERS:
                del self._opened[next(iter(self._opened))]
            self._opened[key] = open_provider(name, entry)
        return self._opened[key]

    def output_model(self, schema: Schema) -> type[BaseModel] | None:
        """The pydantic model that a schema was made from, if it was given in this process."""
        return self._output_models.get(to_json(schema)) if self._output_models else None

    def prepare(self, providers: Mapping[str, Provider] = NO_PROVIDERS) -> None:
        """Load what the models of this system need, ahead of their first call: an SDK takes a second or two."""
        wanted = [self.default_model, *(agent.model for agent in self.agents.values() if agent.model)]
        for name in {choice.model for models in wanted for choice in self.chain(models)}:
            provider, _ = self.model(name, providers)
            if isinstance(provider, Prepared):
                try:
                    provider.prepare()
                except Exception as error:  # a user's provider may raise anything
                    raise DefinitionError(f"the provider of {name!r} cannot be prepared: {error}") from error


def declared_by(owner: Tool | AnyMiddleware, config: object = None) -> Declared:
    """The secrets that a tool or a middleware may look up; `config` is its section of a blueprint's."""
    kind = "tool" if isinstance(owner, Tool) else "middleware"
    return Declared(f"{kind} {owner.name!r}", owner.secrets, frozenset(references_in(config)))


def _has(own: Iterable[str], named: Collection[str], name: str, tags: frozenset[str]) -> bool:
    """Whether an agent with its own tags, and what it names, has what is of this name and of these tags."""
    return name in named or not tags.isdisjoint(own)


def _unknown(kind: str, named: Iterable[str], known: Collection[str]) -> list[str]:
    has = ", ".join(sorted(known)) or "none"
    return [f"there is no {kind} {name!r} to name; there are: {has}" for name in named if name not in known]


def _having(tag: str, registry: Mapping[str, tuple[object, frozenset[str]]]) -> tuple[str, ...]:
    return tuple(name for name, (_, tags) in registry.items() if tag in tags)


def _tags(tags: Iterable[str], where: str) -> list[str]:
    if isinstance(tags, str):
        raise DefinitionError(f"{where}: tags are a list, as in [{tags!r}], not {tags!r}")
    return list(tags)


def load_system(
    reference: str, python_path: tuple[str, ...], providers: Mapping[str, Provider] = NO_PROVIDERS
) -> AgentSystem:
    """Import the system that a reference names, and check it whole; models may also be with these `providers`."""
    check_names(python_path)
    for folder in python_path:
        if folder not in sys.path:
            sys.path.insert(0, folder)
    module, _, name = reference.partition(":")
    try:
        system = getattr(importlib.import_module(module), name)
    except Exception as error:
        looked = f" (looked in {', '.join(python_path)} too)" if python_path else ""
        raise DefinitionError(f"cannot load {reference}: {said_where(error, python_path)}{looked}") from error
    if not isinstance(system, AgentSystem):
        raise DefinitionError(f"{reference} is not an AgentSystem, but a {type(system).__name__}")
    system.check_agents(providers)
    return system
