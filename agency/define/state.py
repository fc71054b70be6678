"""State that people edit: what a middleware provides that lets them, as the stock `planning` and `filesystem` do.

The one idea: what a middleware shows by `state`, it may also take back changed. It is a protocol beside `Middleware`,
because it answers a request of a person instead of following a run. It is asked only while no run is at work.

class Notes(Middleware, StateEditor):
    name = "notes"
    editable = ("notes",)
    …
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from pydantic import JsonValue

from agency.define.hooks import Config, HookContext


@runtime_checkable
class StateEditor(Protocol[Config]):
    """Define both. What the method writes through `ctx.store` is committed when it returns, with the event
    `state.edited`. If the model should know, say so by `ctx.inject`."""

    editable: tuple[str, ...]
    """The parts of its `state` that people may edit, by name."""

    async def edit_state(self, ctx: HookContext[Config], part: str, value: JsonValue) -> tuple[str, ...]:
        """A person changes a part to this. Raise `InvalidInput` to refuse it, which the person gets to see. Returns
        the paths that changed, if the part has paths."""


AnyStateEditor = StateEditor[Any]  # each has its own type of configuration
