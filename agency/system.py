"""The builder: an `AgentSystem` is the tools, middleware and agents that belong together, defined once in code.

    system = (
        AgentSystem(default_model="demo:default")
        .defaults()
        .add_tool(lookup, tags=["billing"])
        .add_agent(name="support", description="Answers customers.", prompt="You are …", tags=["default", "billing"])
    )

An agent gets every tool and middleware that shares a tag with it, each once, in the order of registration. What is
wrong with one definition is said at that definition; what is wrong between them is said when the system is first used.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from pydantic import JsonValue, ValidationError

from agency.blueprint import Blueprint, Isolation, ModelName
from agency.code import CodeRunner
from agency.demo import DemoModel
from agency.errors import DefinitionError, NotFound
from agency.hooks import AnyMiddleware, Middleware
from agency.models import Model, Prepared
from agency.providers import STOCK
from agency.tools import Tool, as_tool
from agency.turn.modes import ModeName
from agency.turn.state import Limits
from agency.wire import explain

_TAG = re.compile(r"[a-zA-Z0-9_-]+")
_MODEL = re.compile(r"[a-z][a-z0-9_-]*:.+")


class AgentSystem:
    def __init__(
        self,
        default_model: ModelName,
        *,
        providers: Mapping[str, Model] | None = None,
        code_runner: CodeRunner | None = None,
    ) -> None:
        """`providers` are models of your own, by the word that stands before the colon in a model's name."""
        if not _MODEL.fullmatch(default_model):
            raise DefinitionError(f"default_model {default_model!r} must read provider:model, as in 'demo:default'")
        self.default_model = default_model
        self.code_runner = code_runner
        self._providers: dict[str, Model] = {"demo": DemoModel(), **STOCK, **(providers or {})}
        self._tools: dict[str, tuple[Tool, frozenset[str]]] = {}
        self._middleware: dict[str, tuple[AnyMiddleware, frozenset[str]]] = {}
        self._agents: dict[str, Blueprint] = {}
        self._checked = False

    # Building.

    def defaults(self) -> AgentSystem:
        """Planning, filesystem and subagents, for every agent with the tag `default`."""
        stock = {entry.name: entry for entry in entry_points(group="agency.defaults")}
        if not stock:
            raise DefinitionError("the stock middleware is not installed: install the project, as `make setup` does")
        for name in ("planning", "filesystem", "subagents"):
            self.use(stock[name].load(), tags=["default"])
        return self

    def use(self, middleware: AnyMiddleware, tags: Iterable[str] = ()) -> AgentSystem:
        """Add a middleware, for agents that share one of these tags or of its own."""
        if not isinstance(middleware, Middleware):
            raise DefinitionError(f"use() takes an instance of Middleware, not {middleware!r}")
        if not getattr(middleware, "name", None):
            raise DefinitionError(f"middleware {type(middleware).__name__} has no name")
        where = f"middleware {middleware.name!r}"
        _check_hooks(middleware, where)
        self._add(self._middleware, middleware.name, middleware, [*middleware.tags, *_tags(tags, where)], where)
        return self

    def add_tool(self, function: Tool | Callable[..., Any], tags: Iterable[str] = ("default",)) -> AgentSystem:
        """Add a tool, or a plain function as one, for agents that share one of these tags."""
        made = function if isinstance(function, Tool) else as_tool(function, sys._getframe(1).f_locals, {})
        where = f"tool {made.name!r}"
        self._add(self._tools, made.name, made, _tags(tags, where), where)
        return self

    def add_agent(
        self,
        *,
        name: str,
        description: str,
        prompt: str,
        tags: Sequence[str] = ("default",),
        model: str | None = None,
        config: Mapping[str, JsonValue] | None = None,
        status: str = "active",
        limits: Limits | Mapping[str, int | None] | None = None,
        mode: ModeName = "tools",
        isolation: Isolation = "shared",
    ) -> AgentSystem:
        chosen = tuple(_tags(tags, f"agent {name!r}"))
        fields = {"name": name, "description": description, "prompt": prompt, "tags": chosen, "model": model}
        more = {"config": config or {}, "status": status, "limits": limits or Limits(), "mode": mode}
        more["isolation"] = isolation
        try:
            blueprint = Blueprint.model_validate({**fields, **more})
        except ValidationError as error:
            raise DefinitionError(f"agent {name!r}: {explain(error)}") from error
        if name in self._agents:
            raise DefinitionError(f"agent {name!r} is defined twice")
        self._check_mode(blueprint)
        self._agents[name] = blueprint
        self._checked = False
        return self

    def _add(self, registry: dict[str, Any], name: str, item: object, tags: Sequence[str], where: str) -> None:
        if name in registry:
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
            for blueprint in self._agents.values():
                self.check(blueprint)
            self._checked = True
        return self._agents

    def check(self, blueprint: Blueprint) -> None:
        """Raise `DefinitionError` where an agent refers to something that this system does not have."""
        where = f"agent {blueprint.name!r}"
        known = frozenset().union(*(tags for _, tags in [*self._tools.values(), *self._middleware.values()]))
        idle = [tag for tag in blueprint.tags if tag not in known and tag != "default"]
        if idle:
            raise DefinitionError(f"{where}: no tool or middleware has the tags {idle}; there are {sorted(known)}")
        self.model(blueprint.model or self.default_model)
        self._check_mode(blueprint)
        selected = self.middleware_for(blueprint)
        for name in blueprint.config.keys() - {mw.name for mw, _ in selected} - {"tools"}:
            raise DefinitionError(
                f"{where} configures {name!r}, but gets no middleware of that name, so it would have no effect; "
                'what is meant for tools goes into config["tools"]'
            )
        for middleware, config in selected:
            try:
                middleware.check(config, self._agents)
            except DefinitionError as error:
                raise DefinitionError(f"{where}: {error}") from error

    def _check_mode(self, blueprint: Blueprint) -> None:
        if blueprint.mode == "code" and self.code_runner is None:
            raise DefinitionError(f"agent {blueprint.name!r} works in code mode: give AgentSystem a code_runner")

    def tool(self, name: str) -> Tool:
        """One of the system's own tools, by name."""
        if name not in self._tools:
            raise NotFound(f"the system has no tool {name!r}")
        return self._tools[name][0]

    def tools_for(self, blueprint: Blueprint) -> list[Tool]:
        return [made for made, tags in self._tools.values() if tags.intersection(blueprint.tags)]

    def middleware_for(self, blueprint: Blueprint) -> list[tuple[AnyMiddleware, Any]]:
        """The agent's middleware, each with its section of the agent's configuration."""
        selected = [mw for mw, tags in self._middleware.values() if tags.intersection(blueprint.tags)]
        return [(mw, _section(mw, blueprint)) for mw in selected]

    def model(self, name: str) -> tuple[Model, str]:
        """The provider of a model, and the model's name there."""
        provider, _, model = name.partition(":")
        if provider not in self._providers:
            known = ", ".join(sorted(self._providers))
            raise DefinitionError(f"no provider named {provider!r} for model {name!r}; there are {known}")
        return self._providers[provider], model

    def prepare(self) -> None:
        """Load what the models of this system need, ahead of their first call: an SDK takes a second or two."""
        for name in {self.default_model, *(agent.model for agent in self.agents.values() if agent.model)}:
            provider, _ = self.model(name)
            if isinstance(provider, Prepared):
                try:
                    provider.prepare()
                except Exception as error:  # a provider may be anybody's
                    raise DefinitionError(f"the provider of {name!r} cannot be prepared: {error}") from error


def _tags(tags: Iterable[str], where: str) -> list[str]:
    if isinstance(tags, str):
        raise DefinitionError(f"{where}: tags are a list, as in [{tags!r}], not {tags!r}")
    return list(tags)


def _check_hooks(middleware: AnyMiddleware, where: str) -> None:
    """A misspelt hook would never be called, and one that is not async cannot be awaited."""
    for name, value in inspect.getmembers(type(middleware), inspect.isfunction):
        if name.startswith(("on_", "before_", "after_")) and not hasattr(Middleware, name):
            raise DefinitionError(f"{where}: there is no hook {name!r}")
        known = getattr(Middleware, name, None)
        if inspect.iscoroutinefunction(known) and not inspect.iscoroutinefunction(value):
            raise DefinitionError(f"{where}: hook {name!r} must be async")


def _section(middleware: AnyMiddleware, blueprint: Blueprint) -> Any:
    """A middleware's part of a blueprint's configuration, validated by its own model."""
    given = blueprint.config.get(middleware.name, {})
    if middleware.config_model is None:
        if given:
            raise DefinitionError(f"agent {blueprint.name!r}: middleware {middleware.name!r} takes no configuration")
        return None
    try:
        return middleware.config_model.model_validate(given)
    except ValidationError as error:
        raise DefinitionError(f"agent {blueprint.name!r}: config.{middleware.name}: {explain(error)}") from error


def load_system(reference: str, python_path: tuple[str, ...]) -> AgentSystem:
    """Import the system that a reference names, and check it whole."""
    for folder in python_path:
        if folder not in sys.path:
            sys.path.insert(0, folder)
    module, _, name = reference.partition(":")
    try:
        system = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise DefinitionError(f"cannot load {reference}: {error} (looked in {', '.join(python_path)} too)") from error
    if not isinstance(system, AgentSystem):
        raise DefinitionError(f"{reference} is not an AgentSystem, but a {type(system).__name__}")
    assert system.agents is not None  # which checks them
    return system
