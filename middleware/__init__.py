"""Capabilities for agents, one module each. They know the library; the library does not know them."""

from middleware.context import context
from middleware.filesystem import filesystem
from middleware.hitl import hitl
from middleware.planning import planning
from middleware.subagents import subagents
from middleware.title import title

__all__ = ["context", "filesystem", "hitl", "planning", "subagents", "title"]
