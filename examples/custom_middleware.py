"""A middleware of your own: a budget. Tools have prices, an agent has credits, and what it cannot pay does not run.

    python -m examples.custom_middleware

`Budget` has all that a middleware can have: a section of the agent's configuration, a table in the thread's file, a
tool for the agent, hooks, and a part of the thread's state for clients and the dashboard.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue, NonNegativeInt
from rich.console import Console
from rich.table import Table

from agency import (
    AgentSystem,
    EventType,
    HookContext,
    Middleware,
    Plan,
    ToolCall,
    ToolContext,
    ToolError,
    open_thread,
    tool,
)


class BudgetConfig(BaseModel):
    """`config={"budget": {…}}` of an agent. Tools without a price are free."""

    model_config = ConfigDict(extra="forbid")

    granted: NonNegativeInt
    prices: dict[str, NonNegativeInt]


class Budget(Middleware[BudgetConfig]):
    """Tools with a price are not `safe`, so that they run one at a time and each sees what was spent before it."""

    name = "budget"
    tags = ("budget",)
    config_model = BudgetConfig
    tables = ("CREATE TABLE expenses (tool TEXT NOT NULL, price INTEGER NOT NULL) STRICT",)

    async def on_init(self, ctx: HookContext[BudgetConfig]) -> None:
        @tool(safe=True)
        async def credits_left(call: ToolContext) -> int:
            """How many credits there are left to spend."""
            return ctx.config.granted - spent(call)

        ctx.register_tool(credits_left)

    async def before_model(self, ctx: HookContext[BudgetConfig], plan: Plan) -> None:
        plan.add_prompt(f"You have {ctx.config.granted - spent(ctx)} credits left. Prices: {ctx.config.prices}.")

    async def on_tool_start(self, ctx: HookContext[BudgetConfig], call: ToolCall) -> None:
        price, left = ctx.config.prices.get(call.name, 0), ctx.config.granted - spent(ctx)
        if price > left:
            raise ToolError(f"it costs {price} credits, and {left} are left")  # so the call does not run
        if price:  # committed together with the call's result: one that fails is free, and no crash charges twice
            ctx.store.execute("INSERT INTO expenses VALUES (?, ?)", (call.name, price))

    async def state(self, ctx: HookContext[BudgetConfig]) -> dict[str, JsonValue]:
        rows = ctx.store.query("SELECT tool, count(*), sum(price) FROM expenses GROUP BY tool ORDER BY tool")
        expenses: list[JsonValue] = [[str(value) for value in row] for row in rows]
        return {"budget": {"granted": ctx.config.granted, "spent": spent(ctx), "expenses": expenses}}


def spent(ctx: HookContext[BudgetConfig] | ToolContext) -> int:
    ((total,),) = ctx.store.query("SELECT coalesce(sum(price), 0) FROM expenses")
    assert isinstance(total, int)
    return total


@tool
async def slogan(product: str) -> str:
    """Think of a slogan."""
    return f"{product.capitalize()}: worth getting up for."


@tool
async def poster(product: str) -> str:
    """Paint a poster."""
    if product == "soup":
        raise ToolError("we do not sell soup")
    return f"a large picture of {product}"


system = (
    AgentSystem(default_model="demo:instant")
    .use(Budget())
    .add_tool(slogan)
    .add_tool(poster)
    .add_agent(
        name="advertiser",
        description="Makes advertisements.",
        prompt="You make advertisements for a bakery.",
        tags=["default", "budget"],
        config={"budget": {"granted": 100, "prices": {"slogan": 5, "poster": 40}}},
    )
)

ORDERS = """\
call slogan {"product": "rolls"}
call poster {"product": "rolls"}
call poster {"product": "soup"}
call poster {"product": "cake"}
call poster {"product": "bread"}
call credits_left"""  # which the demo model follows


async def work(file: Path, console: Console) -> None:
    async with open_thread(system, file, agent="advertiser") as thread:
        await thread.invoke(ORDERS)
        await thread.wait()
        async for event in thread.events(follow=False):
            if event.type == EventType.TOOL_OUTPUT:
                console.print(f"✓ {event.data['toolName']}: {event.data['output']}", style="green", soft_wrap=True)
            if event.type == EventType.TOOL_ERROR:
                console.print(f"✗ {event.data['toolName']}: {event.data['error']}", style="red", soft_wrap=True)
    async with open_thread(system, file) as thread:  # opening the file later gives the same
        budget: Any = (await thread.state()).more["budget"]
    table = Table("tool", "calls", "credits", title=f"{budget['spent']} of {budget['granted']} credits spent")
    for row in budget["expenses"]:
        table.add_row(*row)
    console.print(table)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(work(Path(folder) / "advertiser.db", Console(highlight=False)))


if __name__ == "__main__":
    main()
