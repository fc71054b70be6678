"""deepagents with its SQLite saver, which writes without waiting for the disk at each commit, as ours does."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from deepagents import create_deep_agent
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from benchmarks.peers.programs.rounds import ANSWER, RunOne, serve


@tool
async def look_up(order: str) -> dict[str, object]:
    """Look up an order."""
    return {"order": order, "status": "shipped", "items": [{"sku": "A-1", "count": 2}, {"sku": "B-7", "count": 1}]}


class InstantModel(BaseChatModel):
    """Calls the tool as often as the message says, then answers."""

    @property
    def _llm_type(self) -> str:
        return "instant"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> InstantModel:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        wanted = int(next(str(message.content) for message in messages if message.type == "human"))
        turn = sum(message.type == "tool" for message in messages)
        if turn >= wanted:
            return ChatResult(generations=[ChatGeneration(message=AIMessage(ANSWER))])
        call = {"id": f"call_{turn}", "name": "look_up", "args": {"order": f"ORD-{turn:05}"}}
        reply = AIMessage(f"Looking at order {turn}.", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        return self._generate(messages)


@asynccontextmanager
async def agents(folder: Path) -> AsyncIterator[RunOne]:
    async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
        await saver.setup()
        await saver.conn.execute("PRAGMA synchronous = NORMAL")
        agent = create_deep_agent(
            model=InstantModel(), tools=[look_up], system_prompt="You look up orders.", checkpointer=saver
        )

        async def run_one(trips: int) -> None:
            done = await agent.ainvoke(
                {"messages": [{"role": "user", "content": str(trips)}]},
                {"configurable": {"thread_id": uuid.uuid4().hex}, "recursion_limit": 10_000},
                durability="sync",
            )
            assert done["messages"][-1].content == ANSWER

        yield run_one


if __name__ == "__main__":
    serve(agents)
