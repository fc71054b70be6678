"""Agno's AgentOS over HTTP, with SQLite. Arguments: a folder, a port, the model's address.

Its durable queue needs Postgres or Redis, so on SQLite runs in the background are as durable as they come.
"""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn
from agno.agent import Agent
from agno.db.sqlite import SqliteDb
from agno.models.openai import OpenAIChat
from agno.os import AgentOS


async def look_up(order: str) -> str:
    """Look up an order."""
    return '{"status": "shipped"}'


def main() -> None:
    folder, port, address = sys.argv[1:]
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
    app = AgentOS(agents=[agent], db=db, telemetry=False, checkpoint="tool-batch").get_app()
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error", access_log=False)


if __name__ == "__main__":
    main()
