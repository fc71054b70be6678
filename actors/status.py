"""What an installation is doing: whether it is ready, its nodes, its hosts, and who lives where."""

from __future__ import annotations

from typing import Literal

from actors.placement import Role
from agency.wire import Wire


class NodeStatus(Wire):
    id: str
    budget: int
    """Hosts beyond which threads share."""
    hosts: int


class HostStatus(Wire):
    name: str
    node: str
    role: Role
    state: Literal["starting", "ready", "busy"]
    """`busy` is a host that did not answer in time."""
    threads: tuple[str, ...]
    pid: int | None
    working: int
    """Threads in which a model or a tool is at work right now."""
    rss_bytes: int | None


class Readiness(Wire):
    """Whether a thread could run now."""

    ready: bool
    hosts: int = 0
    """Those that are ready."""
    reason: str = ""
    """Why not."""


class Status(Wire):
    nodes: tuple[NodeStatus, ...]
    hosts: tuple[HostStatus, ...]
    agencies: tuple[str, ...]
    """Those that are awake."""
    awake: int
    hibernated: int
    alarms: dict[str, int]
    """Threads that sleep until then, in milliseconds since 1970."""
