"""What an installation is doing: whether it is ready, its figures, its nodes and hosts, and which thread is where."""

from __future__ import annotations

from typing import Literal

from agency.wire import Wire

Role = Literal["shared", "dedicated"]
"""Of a host: whether threads share it, or one has it to itself."""


class NodeStatus(Wire):
    id: str
    budget: int
    """Hosts beyond which threads share."""
    hosts: int
    problem: str = ""
    """Why hosts do not start there, if they do not."""


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
    """Why not, for those who run the installation."""
    told: str = ""
    """The same for everybody, if the reason is not for everybody."""
    broken: bool = False
    """Whether it stays so until a person changes something: waiting does not help."""


class Metrics(Wire):
    """Figures of an installation. Counters begin with its directory: when that is restarted, so are they."""

    uptime_seconds: float
    runs_started: int = 0
    runs_completed: int = 0
    runs_canceled: int = 0
    runs_failed: int = 0
    runs_recovered: int = 0
    """Runs that were taken up again after their process died or was stopped."""
    turns: int = 0
    model_calls: int = 0
    model_failures: int = 0
    """Calls of models that failed; those that were tried again are among them."""
    model_retries: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    """The part of `tokens_in` that came from the providers' caches."""
    tokens_cache_written: int = 0
    """The part of `tokens_in` that was written to them."""
    cost_usd: float = 0.0
    """Of the calls whose price is known."""
    model_calls_unpriced: int = 0
    """The others."""
    tool_calls: int = 0
    tool_errors: int = 0
    tool_retries: int = 0
    approvals_asked: int = 0
    approvals_answered: int = 0
    subagents_spawned: int = 0
    activations: int = 0
    hibernations: int = 0
    host_deaths: int = 0
    hosts: dict[Literal["starting", "ready"], int]
    """As it is now, like all that follows."""
    awake: int
    hibernated: int
    approvals_waiting: int
    """Threads that wait for a person."""
    alarms: int
    """Threads that sleep until a certain time."""


class Status(Wire):
    nodes: tuple[NodeStatus, ...]
    hosts: tuple[HostStatus, ...]
    agencies: tuple[str, ...]
    """Those that are awake."""
    awake: int
    hibernated: int
    alarms: dict[str, int]
    """Threads that sleep until then, in milliseconds since 1970."""
