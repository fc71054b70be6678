"""Which secrets a thread's middleware and tools may look up.

What code names is its own. What a blueprint's configuration refers to is looked up only if the place that the thread
runs in lets it: the blueprint may be of an agency, and older than the rules for its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from agency.define.blueprint import Blueprint
from agency.define.hooks import AnyMiddleware
from agency.define.system import declared_by
from agency.define.tools import Tool
from agency.secrets import Declared, Secret, default_references

CheckSecret = Callable[[Blueprint, str, Secret], None]


class Lookups:
    def __init__(self, blueprint: Blueprint, middleware: Mapping[str, AnyMiddleware], check: CheckSecret) -> None:
        """`check` refuses what a section of the blueprint's configuration may not refer to, by raising."""
        self._blueprint = blueprint
        self._middleware = middleware
        self._check = check

    def of_middleware(self, middleware: AnyMiddleware, config: Any) -> Declared:
        return self._checked(middleware, declared_by(middleware, config))

    def of_tool(self, tool: Tool, owner: str | None) -> Declared:
        """`owner` is the middleware that has registered the tool; it may have handed its own secrets on."""
        return declared_by(tool) if owner is None else self._checked(self._middleware[owner], declared_by(tool))

    def _checked(self, middleware: AnyMiddleware, declared: Declared) -> Declared:
        named = frozenset(middleware.secrets.values())
        if middleware.config_model is not None:
            named |= default_references(middleware.config_model)

        def check(reference: Secret) -> None:
            if reference not in named:
                self._check(self._blueprint, middleware.name, reference)

        return replace(declared, check=check)
