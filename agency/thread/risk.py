"""Risky tools of a thread whose agent has no approvals (see `agency.define.safety`).

The one idea: what was not known when the agent was defined is not run on a guess. Middleware register tools when a
thread is opened, and code changes: calls of such tools ask a person by themselves. Only a definition that says so
(`unattended`), or one that is older than the rule, has them run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agency.approvals.rules import Policy
from agency.define import safety
from agency.define.blueprint import Blueprint
from agency.define.hooks import AnyMiddleware
from agency.define.tools import Tool
from agency.store.draft import Draft
from agency.turn.effects import Ask, ModelReply


class RiskWatch:
    def __init__(
        self,
        middleware: Sequence[tuple[AnyMiddleware, Any]],
        blueprint: Blueprint,
        tools: Mapping[str, Tool],
        policy: Callable[[], Policy],
    ) -> None:
        """`middleware` come with their configuration; `tools` are those of the thread, also those that are registered
        later."""
        self._blueprint = blueprint
        self._tools = tools
        self._policy = policy
        self._middleware = middleware
        self._asks = blueprint.unattended is False

    def check(self, guards: Sequence[str]) -> None:
        """Refuse to begin a thread whose middleware have registered tools that would need approvals."""
        if self._asks:
            safety.refuse(self._blueprint, self._unguarded(), guards)

    def warn(self, draft: Draft) -> None:
        """Tell the owner of a run of risky tools, if the blueprint is older than the rule."""
        if self._blueprint.unattended is None and (risky := self.unattended_tools()):
            draft.warn(safety.UNATTENDED, safety.warning(risky))

    def unattended_tools(self) -> tuple[str, ...]:
        """The tools of medium and high risk that run without asking a person."""
        return () if self._asks else tuple(tool.name for tool in self._unguarded())

    def _unguarded(self) -> list[Tool]:
        return safety.unguarded(self._tools.values(), self._middleware)

    def ask(self, reply: ModelReply, asked: dict[str, Ask], refused: Collection[str]) -> None:
        """Have a person asked about the risky calls of a reply, if no middleware does. `asked` are those that a person
        is asked about already, by their ids; this adds to them."""
        if not self._asks:
            return
        policy = self._policy()
        for call in reply.tool_calls:
            tool = self._tools.get(call.name)
            if tool is None or call.id in asked or call.id in refused:
                continue
            if not (policy.rules or safety.is_risky(tool)) or safety.is_guarded(call.name, self._middleware):
                continue
            if (risk := policy.risk_of(call, tool) or tool.risk_of(call.args)) != "low":
                asked[call.id] = replace(policy.ask(risk), note=safety.NOT_GUARDED)
