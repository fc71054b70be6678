"""Whether an agent would do something risky without a person.

The one idea: a tool of medium or high risk runs after a person was asked, or because the agent's definition says that
none is (`unattended`). A definition that says neither is refused. Some tools are known only when a thread is open:
calls of those ask by themselves (`Pipeline`). Blueprints that were stored before this rule run as before, with a
warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agency.define.blueprint import Blueprint
from agency.define.hooks import AnyMiddleware, Middleware
from agency.define.tools import Tool
from agency.errors import DefinitionError

TAG = "hitl"
"""The tag, and the name, of the stock middleware that asks."""

UNATTENDED = "unattended"
"""The kind of the warning."""


def asked(blueprint: Blueprint) -> Blueprint:
    """A definition that is made now. Who leaves out whether it is `unattended` says that it is not."""
    return blueprint if blueprint.unattended is not None else blueprint.model_copy(update={"unattended": False})


def is_risky(tool: Tool) -> bool:
    """Whether calls of a tool are of medium or high risk; one with a function of the arguments may be."""
    return callable(tool.risk) or tool.risk != "low"


def unguarded(tools: Iterable[Tool], middleware: Sequence[tuple[AnyMiddleware, Any]]) -> list[Tool]:
    """The risky tools that none of an agent's middleware, each with its configuration, has a person asked about."""
    return [tool for tool in tools if is_risky(tool) and not is_guarded(tool.name, middleware)]


def is_guarded(tool: str, middleware: Iterable[tuple[AnyMiddleware, Any]]) -> bool:
    return any(mw.guards(config, tool) for mw, config in middleware)


def with_listed(fields: Mapping[str, Any], approvals: Sequence[str | Tool], where: str) -> dict[str, Any]:
    """The fields of an agent that asks before calls of these tools, and of no others."""
    listed = [each.name if isinstance(each, Tool) else each for each in approvals] if _is_list(approvals) else []
    if not listed or not all(isinstance(name, str) for name in listed):
        raise DefinitionError(f"{where}: approvals are True, or a list of tools or their names, not {approvals!r:.100}")
    config = dict(fields.get("config") or {})
    own = config.get(TAG, {})
    if not isinstance(own, Mapping) or {"tools", "only"} & own.keys():
        raise DefinitionError(f"{where} lists tools in approvals and in config.{TAG}; do it in one of them")
    return {**fields, "config": {**config, TAG: {**own, "tools": listed, "only": True}}}


def _is_list(given: object) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str)


def check(
    blueprint: Blueprint, tools: Sequence[Tool], middleware: Sequence[tuple[AnyMiddleware, Any]], guards: Sequence[str]
) -> None:
    """Refuse a definition that would run risky tools without a person, or whose configuration names tools that the
    agent does not have. `guards` are the tags that give an agent approvals."""
    _check_named(blueprint, tools, middleware)
    if not blueprint.unattended:
        refuse(blueprint, unguarded(tools, middleware), guards)


def _check_named(blueprint: Blueprint, tools: Sequence[Tool], middleware: Sequence[tuple[AnyMiddleware, Any]]) -> None:
    registered = [_registered(mw) for mw, _ in middleware]
    if None in registered:
        return
    known = {*(tool.name for tool in tools), *(name for names in registered for name in names or ())}
    for mw, config in middleware:
        try:
            mw.check_tools(config, known)
        except DefinitionError as error:
            raise DefinitionError(f"agent {blueprint.name!r}: {error}") from error


def refuse(blueprint: Blueprint, tools: Sequence[Tool], guards: Sequence[str]) -> None:
    """Raise `DefinitionError` if there are tools that would run without a person."""
    if tools:
        raise DefinitionError(f"agent {blueprint.name!r} {_would_run(blueprint, tools)}: {_ways_out(guards)}")


def _would_run(blueprint: Blueprint, tools: Sequence[Tool]) -> str:
    named = ", ".join(
        f"{tool.name} ({'risk by its arguments' if callable(tool.risk) else f'{tool.risk} risk'})" for tool in tools
    )
    lists = isinstance(own := blueprint.config.get(TAG), dict) and own.get("only")
    return f"{'lists other approvals' if lists else 'has no approvals'} and would run {named} without asking a person"


def _ways_out(guards: Sequence[str]) -> str:
    tags = " or ".join(repr(tag) for tag in guards) or repr(TAG)
    missing = "" if guards else ", and have the system use the middleware hitl"
    return (
        f"give it approvals=True, or the tag {tags} in a blueprint{missing}; "
        "or say unattended=True if they are meant to run so"
    )


def _registered(middleware: AnyMiddleware) -> Sequence[str] | None:
    """The names of the tools that a middleware may register; None if they are not known before a thread is open."""
    if middleware.registers is not None:
        return middleware.registers
    hooks = ("on_init", "on_thread_open")
    defined = any(getattr(type(middleware), hook) is not getattr(Middleware, hook) for hook in hooks)
    return None if defined else ()


def warning(tools: Iterable[str]) -> str:
    """What is said of a thread whose blueprint was stored before this was asked."""
    return (
        f"{', '.join(tools)} would need a person's approval, and this agent has no approvals: its blueprint is older "
        "than that rule. Give it approvals (the tag hitl), or say that it is unattended"
    )


NOT_GUARDED = "The agent has no approvals, and is not said to be unattended."
"""Why a person is asked by an agent without approvals."""
