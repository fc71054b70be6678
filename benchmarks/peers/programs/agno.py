"""Agno's AgentOS over HTTP, with SQLite. Arguments: a folder, a port, the model's address; maybe `checkpoints`.

With that word it stores a run after each batch of tools, else at its end. Its durable queue needs Postgres or Redis.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import uvicorn
from agno.agent import Agent
from agno.db.sqlite import SqliteDb
from agno.models.openai import OpenAIChat
from agno.os import AgentOS


async def look_up(order: str) -> str:
    """Look up an order."""
    return '{"status": "shipped"}'


def main() -> None:
    folder, port, address, *words = sys.argv[1:]
    db = SqliteDb(db_file=str(Path(folder) / "agno.db"))
    agent = Agent(
        id="clerk",
        name="clerk",
        model=OpenAIChat(id="m", base_url=address, api_key="none"),
        instructions="You look up orders.",
        tools=[look_up],
        db=db,
        telemetry=False,
    )
    checkpoint: Literal["tool-batch"] | None = "tool-batch" if "checkpoints" in words else None
    app = AgentOS(agents=[agent], db=db, telemetry=False, checkpoint=checkpoint).get_app()
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error", access_log=False)


if __name__ == "__main__":
    main()
