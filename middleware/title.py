"""Title: a small model gives a thread its title after the first reply, in the place of the first message's beginning.

It is asked once for each thread, as an aside of the run: what it costs is charged to that run, and a crash asks nothing
twice. A title is never worth a run: if the model fails, or nothing may be spent any more, the first message stays.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from agency import HookContext, Middleware, ModelError, ModelParams

EXCERPT_CHARS = 2_000
OUTPUT_TOKENS = 60
PROMPT = (
    "Give the conversation a title: at most six words, in the language of the conversation, that tell it from others. "
    "Answer with the title alone: no quotation marks, no full stop."
)
_MADE = "made"


class TitleConfig(BaseModel):
    """`model` is a small one that makes the title; without it, the agent's own model does."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(default=None, min_length=1)


class Title(Middleware[TitleConfig]):
    name = "title"
    tags = ("title",)
    config_model = TitleConfig

    async def on_turn_end(self, ctx: HookContext[TitleConfig]) -> None:
        if ctx.store.get(self.name, _MADE):
            return
        ctx.store.put(self.name, _MADE, True)
        try:
            said = await ctx.ask_model(
                _excerpt(ctx), system=PROMPT, model=ctx.config.model, params=ModelParams(max_tokens=OUTPUT_TOKENS)
            )
            ctx.set_title(said.text.strip().strip("\"'“”«»„").rstrip("."))
        except (ModelError, ValueError):
            ctx.warn("no_title", "the model made no title, so the first message stays the title")


def _excerpt(ctx: HookContext[TitleConfig]) -> str:
    """How the conversation began: what was asked, and the first that was answered in words."""
    spoken = [each for each in ctx.messages() if each.role in ("user", "assistant") and each.content.strip()]
    first = [next((each for each in spoken if each.role == role), None) for role in ("user", "assistant")]
    return (
        "\n\n".join(f"{each.role}: {each.content[:EXCERPT_CHARS]}" for each in first if each is not None) or "(empty)"
    )


title = Title()
