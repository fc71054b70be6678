"""What an agent of a blueprint would have, found out without making a thread.

Tools that middleware bring are registered by their `on_init`, so that is run, on a thread that does not exist: what it
writes is dropped, and if it fails or takes too long, those tools are left out, and the answer says so.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping

from agency.api.resolved import ResolvedMiddleware, ResolvedTool, TagMeaning
from agency.approvals.rules import NO_POLICY
from agency.define.blueprint import Blueprint
from agency.define.hooks import AnyMiddleware
from agency.define.system import AgentSystem
from agency.define.tools import Tool
from agency.errors import WrongState
from agency.metadata import ThreadMetadata
from agency.secrets import NoSecret, Secret
from agency.shelves.interface import ShelfStore
from agency.store.draft import Draft
from agency.thread.openings import openings_of
from agency.thread.pipeline import Pipeline

PATIENCE_SECONDS = 2.0
UNKNOWN = "the tools that middleware bring are known when a thread begins: {error}"


def known_tags(system: AgentSystem) -> tuple[TagMeaning, ...]:
    """All tags, with what each brings."""
    return tuple(
        TagMeaning(tag=tag, tools=tools, middleware=middleware)
        for tag, (tools, middleware) in sorted(system.tagged.items())
    )


async def parts_of(
    system: AgentSystem, blueprint: Blueprint, agents: Mapping[str, Blueprint]
) -> tuple[tuple[ResolvedMiddleware, ...], tuple[ResolvedTool, ...], str | None]:
    """The middleware and tools of an agent, and what could not be found out."""
    middleware = system.middleware_for(blueprint)
    thread = ThreadMetadata(id="draft", agent_type=blueprint.name, created_at="")
    pipeline = Pipeline(
        middleware,
        system.tools_for(blueprint),
        thread,
        blueprint,
        agents,
        lambda: NO_POLICY,
        _no_shelves,
        openings_of(system),
        _no_secret,
    )
    problem = None
    try:
        await asyncio.wait_for(pipeline.on_init(Draft(None)), PATIENCE_SECONDS)
    except Exception as error:  # a user's hook may raise anything
        problem = UNKNOWN.format(error=str(error) or type(error).__name__)
    tagged = system.tagged
    brought = {
        kind: {name: [tag for tag in blueprint.tags if name in tagged.get(tag, ((), ()))[kind]] for name in names}
        for kind, names in enumerate((pipeline.tools, [mw.name for mw, _ in middleware]))
    }
    return (
        tuple(
            ResolvedMiddleware(
                name=mw.name,
                tags=tuple(brought[1][mw.name]),
                description=_first_line(mw),
                configured=mw.name in blueprint.config,
            )
            for mw, _ in middleware
        ),
        tuple(_tool(tool, pipeline.owner_of(name), brought[0][name]) for name, tool in pipeline.tools.items()),
        problem,
    )


def _tool(tool: Tool, owner: str | None, tags: list[str]) -> ResolvedTool:
    return ResolvedTool(
        name=tool.name,
        description=tool.spec.description.partition("\n")[0],
        risk="depends" if callable(tool.risk) else tool.risk,
        middleware=owner,
        tags=tuple(tags),
    )


def _first_line(middleware: AnyMiddleware) -> str:
    """What a middleware says about itself: its class, or else its module."""
    own = (
        type(middleware).__dict__.get("__doc__") or getattr(inspect.getmodule(type(middleware)), "__doc__", None) or ""
    )
    return " ".join(own.strip().partition("\n\n")[0].split())


def _no_secret(blueprint: Blueprint, section: str, reference: Secret) -> None:
    raise NoSecret("a draft has no secrets")


def _no_shelves() -> ShelfStore:
    raise WrongState("a draft has no shelves")
