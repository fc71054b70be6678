"""Shows what hosts log in the gateway's own log: what other people's code prints, and tracebacks of what it raises."""

from __future__ import annotations

import asyncio
import logging

import structlog

from actors import Cluster
from agency.api.bodies import ServerLogLine
from agency.captured import OUTPUT
from agency.clock import now_ms
from agency.events import timestamp

log = structlog.get_logger(OUTPUT)

WAIT_SECONDS = 30.0
AGAIN_SECONDS = 1.0


async def show_server_log(cluster: Cluster) -> None:
    """Never returns. It begins with what is logged from now on."""
    logging.getLogger(OUTPUT).setLevel(logging.INFO)  # a person who prints wants to see it
    since, after = timestamp(now_ms()), 0
    while True:
        try:
            page = await cluster.server_log(after, WAIT_SECONDS)
        except Exception:  # the directory is being started again
            await asyncio.sleep(AGAIN_SECONDS)
            continue
        after = page.next
        for line in page.lines:
            if line.ts >= since:
                write(line)


def write(line: ServerLogLine) -> None:
    about = line.model_dump(include={"agency", "thread", "call", "tool", "host", "exception"}, exclude_none=True)
    log.log(logging.getLevelNamesMapping().get(line.level.upper(), logging.INFO), line.event, **about)
