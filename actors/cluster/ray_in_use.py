"""What this process has joined, for its users to see: which Ray, whose, why, and what others can reach of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import ray

from actors.cluster import local_ray
from actors.cluster.listeners import open_ports, owner_of
from actors.cluster.private import who_can_enter
from actors.status import RayInUse

log = logging.getLogger(__name__)


def ray_in_use(data_dir: Path, reason: str) -> RayInUse:
    """What is joined now. It takes some hundredths of a second, and looks at this machine only."""
    address = ray.get_runtime_context().gcs_address
    session = _session()
    local = local_ray.find(data_dir)
    return RayInUse(
        address=address,
        local=local is not None and local.address == address,
        owner=owner_of(address),
        reason=reason,
        folder_problem=folder_problem(session),
        open_ports=open_ports(_processes(session.name)),
    )


def tell(joined: RayInUse) -> None:
    """Write into the log what was joined, and warn of what others can reach though they need not."""
    log.info("joined Ray at %s (%s), because %s", joined.address, joined.whose, joined.reason)
    if joined.folder_problem:
        log.warning("other users can reach the sockets and logs of Ray: %s; %s", joined.folder_problem, joined.remedy)
    if joined.local and joined.open_ports:
        log.warning("Ray listens beyond loopback: %s; %s", ", ".join(joined.open_ports), joined.remedy)


def folder_problem(session: Path) -> str:
    """How other users can get into the folder of a session, or have done so."""
    return who_can_enter(session) or next(_links(session), "")


def _session() -> Path:
    """The folder of the joined Ray on this machine: each node has its sockets in one."""
    here = ray.get_runtime_context().get_node_id()
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]  # Ray's
    (socket,) = (Path(each["RayletSocketName"]) for each in nodes if each["NodeID"] == here)
    return socket.parent.parent


def _links(session: Path) -> Iterator[str]:
    """Symbolic links where Ray writes. It makes none there itself but to the logs of TPUs."""
    places = (place for folder in (session, session / "sockets", session / "logs") for place in folder.glob("*"))
    for place in places:
        if place.is_symlink() and place.name != "tpu_logs":
            yield f"{place} is a symbolic link, which Ray does not make"


def _processes(session: str) -> set[int]:
    """A session's processes: those that are told its name, and those that they have started, which change their titles.
    What tools start is not among them."""
    found: set[int] = set()
    for each in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or is another user's
            if any(session in argument for argument in each.cmdline()):
                found |= {each.pid, *(child.pid for child in each.children())}
    return found
