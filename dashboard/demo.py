"""What `agency serve` serves when it is told nothing else: a bakery's agents, on the offline model.

`AGENT` and `TASK` make a first thread in which there is something to see: a plan, two subagents at work side by side, a
report, and at the end a call that waits for its visitor's approval.
"""

from __future__ import annotations

import asyncio

from agency import AgentSystem, tool
from middleware import hitl

AGENT = "manager"
TASK = "Should our bakery deliver on the same day?"


@tool(safe=True)
async def ask_customers(question: str) -> str:
    """Ask the customers who are in the shop."""
    await asyncio.sleep(2.0)  # long enough to be watched
    return "7 of 12 would order more often, 2 of them only if it were free (made up)"


@tool(safe=True)
async def estimate_costs(plan: str) -> str:
    """Estimate what a plan costs."""
    await asyncio.sleep(1.5)
    return "a driver and a van for 160 a day, so it takes 32 orders to pay (made up)"


@tool(risk="high", idempotent=False)
async def publish(path: str) -> str:
    """Publish a file, for the whole world to read."""
    return f"{path} is public now."


system = (
    AgentSystem(default_model="demo:default")
    .defaults()  # planning, files and subagents, for agents with the tag "default"
    .use(hitl, tags=["careful"])
    .add_tool(ask_customers, tags=["research"])
    .add_tool(estimate_costs, tags=["criticism"])
    .add_tool(publish, tags=["publishing"])
    .add_agent(
        name="researcher",
        description="Finds out what people want.",
        prompt="You find out what people want, and report it in a few sentences.",
        tags=["research"],
    )
    .add_agent(
        name="critic",
        description="Finds weak points.",
        prompt="You find the weak points of a plan, and report them in a few sentences.",
        tags=["criticism"],
    )
    .add_agent(
        name=AGENT,
        description="Plans, asks the others, writes a report and publishes it.",
        prompt="You plan, ask your subagents, write a report and publish it.",
        tags=["default", "publishing", "careful"],
        config={"hitl": {"tools": ["publish"]}},
    )
)
