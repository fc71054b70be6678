"""Tools and middleware that an agent brings with its definition: `add_agent(tools=[…], middleware=[…])`.

The one idea: what an agent brings is the system's, without a tag, and its blueprint names it. So blueprints stay data,
hosts that import the system have what they name, and no other agent gets it unless it names it, too. One name is one
tool, and one middleware, in the whole system.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from agency.define.hooks import AnyMiddleware, Middleware
from agency.define.middleware_checks import check_definition
from agency.define.tools import Tool, as_tool
from agency.errors import DefinitionError

Registry = MutableMapping[str, tuple[Any, frozenset[str]]]
"""What a system has, by name, with the tags by which agents get it."""


def bring(
    tools: Registry, middleware: Registry, fields: Mapping[str, Any], caller_locals: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields of a blueprint, in which what an agent brings has become names. What is new to the registries is added
    to them, after all of it was checked."""
    where = f"agent {fields.get('name')!r}"
    named = dict(fields)
    brought: list[tuple[Registry, Tool | AnyMiddleware]] = []
    for field, registry, made in (
        ("tools", tools, lambda given: _as_tool(given, caller_locals, where)),
        ("middleware", middleware, lambda given: _as_middleware(given, where)),
    ):
        if fields.get(field) is None:
            continue
        names: list[str] = []
        for each in _listed(fields[field], field, where):
            item = each if isinstance(each, str) else made(each)
            if not isinstance(item, str):
                _check_same(registry, item, field, where)
                brought.append((registry, item))
            names.append(item if isinstance(item, str) else item.name)
        named[field] = list(dict.fromkeys(names))
    for registry, item in brought:
        registry.setdefault(item.name, (item, frozenset()))
    return named


def is_same(known: object, item: object) -> bool:
    """Whether two things of one name are the same: a function that was made a tool twice is."""
    if isinstance(known, Tool) and isinstance(item, Tool):
        return known is item or known.function is item.function
    return known is item


def _check_same(registry: Registry, item: Tool | AnyMiddleware, field: str, where: str) -> None:
    if item.name in registry and not is_same(registry[item.name][0], item):
        kind = "tool" if isinstance(item, Tool) else "middleware"
        way_out = (
            "give one of them another name, as in @tool(name=…)"
            if isinstance(item, Tool)
            else "share one instance, and configure it by each agent's `config`"
        )
        raise DefinitionError(f"{where} brings a {kind} {item.name!r}, and the system has another one: {way_out}")


def _listed(given: object, field: str, where: str) -> Sequence[object]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise DefinitionError(f"{where}: {field} are a list, not {given!r:.100}")
    return given


def _as_tool(given: object, caller_locals: Mapping[str, Any], where: str) -> Tool:
    if isinstance(given, Tool):
        return given
    if not callable(given):
        raise DefinitionError(f"{where}: a tool is a function, a Tool or the name of one, not {given!r:.100}")
    return as_tool(given, caller_locals, {})


def _as_middleware(given: object, where: str) -> AnyMiddleware:
    if not isinstance(given, Middleware) or not getattr(given, "name", None):
        raise DefinitionError(f"{where}: a middleware is an instance of one or its name, not {given!r:.100}")
    check_definition(given, f"middleware {given.name!r}")
    return given
