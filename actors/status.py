"""What an installation is doing: whether it is ready, its figures, its nodes and hosts, and which thread is where."""

from __future__ import annotations

from typing import Literal

from agency.wire import Wire

Role = Literal["shared", "dedicated"]
"""Of a host: whether threads share it, or one has it to itself."""


HostState = Literal["starting", "ready", "busy", "silent"]


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
    state: HostState
    """`busy` is a host that took too long to tell of itself; `silent` is one that answers no more, and gets nothing new
    until it does, or is replaced."""
    threads: tuple[str, ...]
    pid: int | None
    working: int
    """Threads in which a model or a tool is at work right now."""
    rss_bytes: int | None
    problem: str = ""
    """Why it is silent, if it is: for how long, and what holds it up if that is known."""


class AgencyHostLoad(Wire):
    """What an agency host tells of itself."""

    node: str
    pid: int
    agencies: tuple[str, ...]
    """Those that are awake there."""
    rss_bytes: int


class AgencyHostStatus(Wire):
    name: str
    node: str
    """Empty while it is starting."""
    state: HostState
    agencies: tuple[str, ...]
    """Those that are awake there."""
    pid: int | None
    rss_bytes: int | None
    problem: str = ""
    """Why it is silent, if it is: for how long."""


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
    hosts_replaced: int = 0
    """Those of them that were ended because they answered no more."""
    hosts: dict[Literal["starting", "ready", "silent"], int]
    """As it is now, like all that follows."""
    awake: int
    hibernated: int
    approvals_waiting: int
    """Threads that wait for a person."""
    alarms: int
    """Threads that sleep until a certain time."""


class RayInUse(Wire):
    """The Ray that a process has joined."""

    address: str
    local: bool
    """Whether it was started for this installation, on this machine."""
    owner: str
    """The user whose process listens at the address; empty if that is another machine's."""
    reason: str
    """Why this one was joined."""
    folder_problem: str
    """How other users of this machine can get into the folder of its sockets and logs; empty if they cannot."""
    open_ports: tuple[str, ...]
    """Where its processes on this machine listen beyond loopback."""

    @property
    def whose(self) -> str:
        """In words: where it runs, and for whom."""
        if self.local:
            return f"local, of {self.owner}"
        return f"of {self.owner}, on this machine" if self.owner else "on another machine"

    @property
    def remedy(self) -> str:
        """What keeps others out."""
        if self.local:
            return "agency down, then agency serve starts one that others cannot reach"
        return "start it as the guide to clusters says: with --temp-dir in a folder for you alone, behind a firewall"


class Status(Wire):
    ray: RayInUse | None = None
    """What the process that was asked has joined."""
    nodes: tuple[NodeStatus, ...]
    hosts: tuple[HostStatus, ...]
    agency_hosts: tuple[AgencyHostStatus, ...] = ()
    agencies: tuple[str, ...]
    """Those that are awake."""
    awake: int
    hibernated: int
    alarms: dict[str, int]
    """Threads that sleep until then, in milliseconds since 1970."""
