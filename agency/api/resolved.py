"""What an agent of a blueprint would have: its middleware, its tools and its models, without making one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agency.wire import Wire


class TagMeaning(Wire):
    """What a tag brings to agents that have it."""

    tag: str
    tools: tuple[str, ...] = ()
    middleware: tuple[str, ...] = ()


class ResolvedMiddleware(Wire):
    name: str
    tags: tuple[str, ...] = Field(description="Those of the blueprint's that bring it.")
    description: str = ""
    configured: bool = Field(default=False, description="Whether the blueprint's `config` has a section for it.")


class ResolvedTool(Wire):
    name: str
    description: str = ""
    risk: Literal["low", "medium", "high", "depends"] = Field(description="`depends`: on the arguments of the call.")
    middleware: str | None = Field(default=None, description="The middleware that brings it; null is the code's own.")
    tags: tuple[str, ...] = Field(default=(), description="Those of the blueprint's that bring it.")


class ResolvedBlueprint(Wire):
    """What threads of a blueprint would have. Nothing is stored."""

    problem: str | None = Field(default=None, description="Why it would be refused; null if it would be taken.")
    warnings: tuple[str, ...] = ()
    models: tuple[str, ...] = Field(default=(), description="Those that are asked, the first choice first.")
    middleware: tuple[ResolvedMiddleware, ...] = ()
    tools: tuple[ResolvedTool, ...] = ()
    known_tags: tuple[TagMeaning, ...] = Field(default=(), description="All tags that bring something here.")
