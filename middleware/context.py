"""Context: when a conversation has become too long for the model, its older half is left out from then on.

Nothing is lost: the thread keeps every message. The model reads how the conversation began and how much of it is left
out; if that is still too much, the older half of the rest goes, too.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from agency import HookContext, Middleware, Plan

BEGINNING_CHARS = 4_000
NOTE = "(This conversation is too long: {left_out} earlier messages are left out here. It began with:\n\n{beginning}\n)"


class ContextConfig(BaseModel):
    """`keep` is how many messages at the end are never left out."""

    model_config = ConfigDict(extra="forbid")

    keep: int = Field(default=4, ge=1)


class Context(Middleware[ContextConfig]):
    name = "context"
    tags = ("context",)
    config_model = ContextConfig

    async def on_overflow(self, ctx: HookContext[ContextConfig], plan: Plan) -> bool:
        left_out = _left_out(ctx)
        can_go = plan.messages - ctx.config.keep - left_out
        if can_go <= 0:
            return False
        ctx.store.put(self.name, "left_out", left_out + (can_go + 1) // 2)
        return True

    async def before_model(self, ctx: HookContext[ContextConfig], plan: Plan) -> None:
        if (left_out := _left_out(ctx)) > 0:
            (first,) = ctx.messages(upto=1)
            plan.forget(left_out, NOTE.format(left_out=left_out, beginning=first.content[:BEGINNING_CHARS]))


def _left_out(ctx: HookContext[ContextConfig]) -> int:
    kept = ctx.store.get("context", "left_out")
    return kept if isinstance(kept, int) else 0


context = Context()
