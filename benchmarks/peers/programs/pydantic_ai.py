"""pydantic-ai: as it comes, which keeps nothing; or if the second argument is `dbos`, as workflows of DBOS."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

from benchmarks.peers.programs.rounds import ANSWER, RunOne, serve

NO_LIMIT = UsageLimits(request_limit=None)


async def instant(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Calls the tool as often as the prompt says, then answers."""
    wanted = next(part.content for part in messages[0].parts if isinstance(part, UserPromptPart))
    turn = sum(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
    if turn >= int(str(wanted)):
        return ModelResponse(parts=[TextPart(ANSWER)])
    call = ToolCallPart("look_up", {"order": f"ORD-{turn:05}"}, tool_call_id=f"call_{turn}")
    return ModelResponse(parts=[TextPart(f"Looking at order {turn}."), call])


async def look_up(order: str) -> dict[str, object]:
    """Look up an order."""
    return {"order": order, "status": "shipped", "items": [{"sku": "A-1", "count": 2}, {"sku": "B-7", "count": 1}]}


async def finish(agent: Agent, trips: int) -> None:
    done = await agent.run(str(trips), usage_limits=NO_LIMIT)
    assert done.output == ANSWER


@asynccontextmanager
async def plain(folder: Path) -> AsyncIterator[RunOne]:
    agent = Agent(FunctionModel(instant), name="clerk", instructions="You look up orders.", tools=[look_up])

    async def run_one(trips: int) -> None:
        await finish(agent, trips)

    yield run_one


@asynccontextmanager
async def durable(folder: Path) -> AsyncIterator[RunOne]:
    from dbos import DBOS
    from pydantic_ai.durable_exec.dbos import DBOSDurability

    address = f"sqlite:///{folder / 'dbos.db'}"
    DBOS(config={"name": "clerks", "system_database_url": address, "console_log_level": "ERROR", "log_level": "ERROR"})
    agent = Agent(
        FunctionModel(instant),
        name="clerk",
        instructions="You look up orders.",
        tools=[DBOS.step()(look_up)],
        capabilities=[DBOSDurability()],
    )

    @DBOS.workflow()
    async def run_one(trips: int) -> None:
        await finish(agent, trips)

    DBOS.launch()
    try:
        yield run_one
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    serve(durable if "dbos" in sys.argv else plain)
