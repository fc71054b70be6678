"""Human in the loop: before a risky call runs, a person approves it, edits it, denies it or responds in its place.

Low risk runs, medium and high ask. How risky a call is, is said by the agency's rules, then by those of the blueprint,
then by the tool (`agency.approvals`); tools that are listed by name always ask. The whole batch waits, so nothing of it
has run when the person is asked. A denied tool never runs.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from agency import DefinitionError, HookContext, Middleware, ModelReply, OnTimeout, Plan, Rule, risk_of


class HitlConfig(BaseModel):
    """`tools` are those that need a person's approval whatever their risk, with `only` no others do; `rules` say how
    risky calls are. Without a decision within `timeout_ms`, a call is denied, or approved if `on_timeout` says so."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    tools: tuple[str, ...] = ()
    only: bool = False
    rules: tuple[Rule, ...] = ()
    timeout_ms: Annotated[int, Field(ge=1, lt=2**53)] | None = None
    on_timeout: OnTimeout = "deny"


class Hitl(Middleware[HitlConfig]):
    name = "hitl"
    tags = ("hitl",)
    config_model = HitlConfig
    guards_risk = True

    def check_tools(self, config: HitlConfig, tools: Collection[str]) -> None:
        named = (*config.tools, *(rule.tool for rule in config.rules if rule.tool != "*"))
        if unknown := [name for name in named if name not in tools]:  # a misspelt name would leave a tool unguarded
            has = ", ".join(sorted(tools)) or "none"
            raise DefinitionError(f"config.hitl names tools that the agent does not have: {unknown}; it has {has}")

    def guards(self, config: HitlConfig, tool: str) -> bool:
        return not config.only or tool in config.tools

    def decision_ms(self, config: HitlConfig) -> int | None:
        return config.timeout_ms

    async def before_model(self, ctx: HookContext[HitlConfig], plan: Plan) -> None:
        self.check_tools(ctx.config, ctx.tools)

    async def on_model_result(self, ctx: HookContext[HitlConfig], reply: ModelReply) -> None:
        if not reply.tool_calls:
            return
        config, policy = ctx.config, ctx.policy
        for call in reply.tool_calls:
            tool = ctx.tools.get(call.name)
            risk = policy.risk_of(call, tool) or risk_of(call, tool, config.rules)
            if call.name not in config.tools and (config.only or risk == "low"):
                continue
            own = config if config.timeout_ms is not None else policy
            ctx.ask(call.id, risk=risk, timeout_ms=own.timeout_ms, on_timeout=own.on_timeout)


hitl = Hitl()
