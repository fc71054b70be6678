"""Human in the loop: before a listed tool runs, a person approves the call, edits it or denies it.

The whole batch waits, so nothing of it has run when the person is asked. A denied tool never runs.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from agency import HookContext, Middleware, ModelReply, Plan


class HitlConfig(BaseModel):
    """`tools` are those that need a person's approval."""

    model_config = ConfigDict(extra="forbid")

    tools: tuple[str, ...] = ()


class Hitl(Middleware[HitlConfig]):
    name = "hitl"
    tags = ("hitl",)
    config_model = HitlConfig

    async def before_model(self, ctx: HookContext[HitlConfig], plan: Plan) -> None:
        unknown = [name for name in ctx.config.tools if name not in ctx.tools]
        if unknown:  # a misspelt name would leave a tool unguarded
            raise ValueError(f"config.hitl.tools names tools that the agent does not have: {unknown}")

    async def on_model_result(self, ctx: HookContext[HitlConfig], reply: ModelReply) -> None:
        for call in reply.tool_calls:
            if call.name in ctx.config.tools:
                ctx.ask(call.id)


hitl = Hitl()
