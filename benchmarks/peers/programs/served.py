"""Ours over HTTP: what `agency serve` is given."""

from __future__ import annotations

from agency import AgentSystem, tool


@tool(safe=True)
async def look_up(order: str) -> dict[str, str]:
    """Look up an order."""
    return {"status": "shipped"}


system = (
    AgentSystem("openai:m")
    .add_tool(look_up)
    .add_agent(name="clerk", description="Looks up orders.", prompt="You look up orders.")
)
