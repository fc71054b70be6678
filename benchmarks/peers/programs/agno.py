"""Agno's AgentOS over HTTP, with SQLite. Arguments: a folder, a port, the model's address; then maybe `queue`.

As it comes, or with `queue` as durable as it can be: a durable queue, a checkpoint after each batch of tools.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import uvicorn
from agno.agent import Agent
from agno.db.sqlite import SqliteDb
from agno.job_queue import QueueConfig
from agno.models.openai import OpenAIChat
from agno.os import AgentOS


async def look_up(order: str) -> str:
    """Look up an order."""
    return '{"status": "shipped"}'


def main() -> None:
    folder, port, address, *words = sys.argv[1:]
    durable: dict[str, Any] = {}
    if "queue" in words:
        queue = QueueConfig(durable=True, max_attempts=5, retry_delay_seconds=1, lock_grace_seconds=3)
        durable = {"checkpoint": "tool-batch", "queue": queue}
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
    app = AgentOS(agents=[agent], db=db, telemetry=False, **durable).get_app()
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error", access_log=False)


if __name__ == "__main__":
    main()
