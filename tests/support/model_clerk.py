"""A clerk who can look things up, on whichever model: the agent of these tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agency import AgentSystem, Event, RunEnvelope, Thread, open_thread, tool
from tests.support.model_requests import MODELS, PATIENCE


@tool(safe=True)
async def weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: Its name.
    """
    if city == "Atlantis":
        raise ValueError("no such city")
    return f"sunny in {city}"


@asynccontextmanager
async def clerk(provider: str, path: Path) -> AsyncIterator[Thread]:
    system = (
        AgentSystem(MODELS[provider])
        .add_tool(weather)
        .add_agent(name="clerk", description="Does clerical work.", prompt="You are a clerk.")
    )
    async with open_thread(system, path / "clerk.db", agent="clerk") as thread:
        yield thread


async def run(thread: Thread, message: str) -> RunEnvelope:
    await thread.invoke(message)
    return await thread.wait(PATIENCE)


async def events(thread: Thread) -> list[Event]:
    return [event async for event in thread.events(follow=False)]
