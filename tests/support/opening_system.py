"""A system whose middleware notes when it is opened and closed. Hosts import it; the ledger is named by a variable that
the middleware declares, so that every host gets it."""

from __future__ import annotations

import os
from pathlib import Path

from agency import AgentSystem, HookContext, Middleware, ProcessContext, ThreadMetadata, secret, tool
from tests.support.scripted_system import ScriptModel


@tool
async def fetch() -> str:
    """Fetch it."""
    return "fetched"


class Pool(Middleware):
    name = "pool"
    tags = ("default",)
    secrets = {"ledger": secret("env:OPENINGS_LEDGER")}
    ledger = Path()

    def note(self, what: str) -> None:
        with self.ledger.open("a") as file:
            file.write(f"{what} {os.getpid()}\n")

    async def on_init(self, ctx: HookContext) -> None:
        ctx.register_tool(fetch)

    async def on_process_open(self, ctx: ProcessContext) -> None:
        self.ledger = Path(ctx.secret("ledger"))
        self.note("process-open")
        if self.ledger.with_name("away").exists():
            raise ConnectionError("the server is away")

    async def on_process_close(self) -> None:
        self.note("process-close")

    async def on_thread_open(self, ctx: HookContext) -> None:
        self.note(f"thread-open:{ctx.thread.id}")

    async def on_thread_close(self, thread: ThreadMetadata) -> None:
        self.note(f"thread-close:{thread.id}")


system = (
    AgentSystem("script:any", providers={"script": ScriptModel()})
    .use(Pool())
    .add_agent(name="clerk", description="Does what it is told.", prompt="clerk")
)
