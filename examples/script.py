"""The smallest program: one agent, one thread, one file, no Ray. Kill it in the middle and run it again: it goes on.

    python -m examples.script

It bakes six trays of rolls, half a second each. Stop it on the way, with Ctrl-C or `kill -9`, and give the same
command again: trays that were done stay done, as the process ids beside them show, and the rest follows. To be found
again, the thread is in data/examples/script.db (`--data-dir` puts it elsewhere). After the end, a start is a new run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from pathlib import Path

from agency import AgentSystem, EventType, open_thread, tool

TRAYS = 6
TASK = "\n".join(f'call bake {{"tray": {tray}}}' for tray in range(1, TRAYS + 1))  # orders that the demo model follows


@tool
async def bake(tray: int) -> str:
    """Bake a tray of rolls."""
    await asyncio.sleep(0.5)
    return f"tray {tray} is done, by process {os.getpid()}"


system = (
    AgentSystem(default_model="demo:instant")
    .add_tool(bake)
    .add_agent(name="baker", description="Bakes rolls.", prompt="You bake rolls, tray after tray.")
)


async def work(file: Path) -> None:
    async with open_thread(system, file, agent="baker") as thread:
        if thread.run_state().status == "running":  # opening the file was enough: it is at work already
            print("Resuming the run that was in progress. So far, and from here on:")
        else:
            await thread.invoke(TASK)
            print(f"A new run. To see it survive, kill it: kill -9 {os.getpid()}")
        run_id = thread.run_state().run_id
        async for event in thread.events():  # from the very first, and then live
            if event.data.get("runId") != run_id:
                continue
            if event.type == EventType.TOOL_OUTPUT:
                print(f"  ✓ {event.data['output']}", flush=True)
            if event.type == EventType.AGENT_COMPLETED:
                break
    print(f"All {TRAYS} trays are done. Their thread is {file}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=Path("data/examples"), help="where the thread is kept")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C simply kills: nothing is lost, which is the point
    asyncio.run(work(parser.parse_args().data_dir / "script.db"))


if __name__ == "__main__":
    main()
