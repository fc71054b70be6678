"""Joining the installation for a gateway: start it if it does not run, and return when a thread could run.

Ray sets handlers of its own for the signals that end a process, which print a stack. The ones that the server has set
are put back, whichever server that is.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable

from actors import Cluster, Settings
from agency.errors import Unavailable

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)
START_SECONDS = 120.0
PATIENT_SECONDS = 5.0
"""After which the log says what the start waits for."""


async def join(installation: Settings, on_wait: Callable[[str], None] = lambda reason: None) -> Cluster:
    """`on_wait` is told what the installation waits for, whenever that changes."""
    cluster = await Cluster.join(installation, renew=True)
    try:
        _put_back_handlers()
        await _until_ready(cluster, on_wait)
    except BaseException:
        await cluster.close()
        raise
    return cluster


def _put_back_handlers() -> None:
    if threading.current_thread() is not threading.main_thread():
        return  # Python sets handlers in the main thread only, so this one's server has none
    for each in SIGNALS:
        handler = signal.getsignal(each)
        if handler is not None:
            signal.signal(each, handler)
            signal.siginterrupt(each, False)


async def _until_ready(cluster: Cluster, on_wait: Callable[[str], None]) -> None:
    deadline = asyncio.get_running_loop().time() + START_SECONDS
    began, told, warned = asyncio.get_running_loop().time(), "", ""
    while not (found := await cluster.ready()).ready:
        if found.hosts:
            return  # its disk may be full: whatever needs none is served, and /healthz tells
        if found.broken:
            raise Unavailable(f"the installation cannot start: {found.reason}").telling(found.told)
        if asyncio.get_running_loop().time() > deadline:
            late = f"the installation is not ready after {START_SECONDS:g} seconds"
            raise Unavailable(f"{late}: {found.reason}").telling(f"{late}: {found.told}" if found.told else "")
        if found.reason != told:
            told = found.reason
            on_wait(found.told or told)
        if told != warned and asyncio.get_running_loop().time() > began + PATIENT_SECONDS:
            warned = told
            log.warning("still starting: %s", told)
        await asyncio.sleep(0.1)
