"""Ours in one process: durable threads, with planning, files and subagents if the second argument is `stock`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agency import LocalRuntime, ModelReply, ModelRequest, OnDelta
from benchmarks.peers.programs.rounds import RunOne, serve
from benchmarks.turn import InstantModel, build


class ToldModel(InstantModel):
    """Calls the tool as often as the message says, then answers."""

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        turn = len(request.messages) // 2
        return self.reply(turn, done=turn >= int(request.messages[0].content))


@asynccontextmanager
async def threads(folder: Path) -> AsyncIterator[RunOne]:
    async with LocalRuntime(build(ToldModel(), 0, stock="stock" in sys.argv), folder) as runtime:

        async def run_one(trips: int) -> None:
            thread = await runtime.create_thread("clerk")
            await thread.invoke(str(trips))
            result = await thread.wait()
            assert result.status == "completed", result

        yield run_one


if __name__ == "__main__":
    serve(threads)
