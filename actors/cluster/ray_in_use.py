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
from actors.cluster.ray_head import FORKS
from actors.status import RayInUse

log = logging.getLogger(__name__)

CLIENT_SERVER = "ray.util.client.server"


def ray_in_use(data_dir: Path, reason: str) -> RayInUse:
    """What this process has joined. It takes a tenth of a second."""
    address = ray.get_runtime_context().gcs_address
    local = local_ray.find(data_dir)
    return _looked_at(address, _session(), reason, local=local is not None and local.address == address)


def local_ray_of(data_dir: Path) -> RayInUse | None:
    """The local Ray of a data folder, if it runs, without joining it."""
    found = local_ray.find(data_dir)
    if found is None:
        return None
    return _looked_at(found.address, found.session_dir, f"it was started for {data_dir}", local=True)


def tell(joined: RayInUse) -> None:
    """Write into the log what was joined, and warn of what others can reach though they need not."""
    log.info("joined Ray at %s (%s), because %s", joined.address, joined.whose, joined.reason)
    if joined.folder_problem:
        log.warning("other users can reach the sockets and logs of Ray: %s; %s", joined.folder_problem, joined.remedy)
    if joined.local and joined.open_ports:
        log.warning("Ray listens beyond loopback: %s; %s", ", ".join(joined.open_ports), joined.remedy)


def _looked_at(address: str, session: Path, reason: str, *, local: bool) -> RayInUse:
    return RayInUse(
        address=address,
        local=local,
        owner=owner_of(address),
        reason=reason,
        folder_problem=who_can_enter(session) or next(_links(session), ""),
        open_ports=open_ports(_processes(session, address)),
    )


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


def _processes(session: Path, address: str) -> set[int]:
    """A session's processes: those that are told its name or where its fork server listens, the server of Ray's client,
    which is told the address, and those that these have started, which change their titles. What tools start is not
    among them."""
    told = (session.name, str(session.parents[1] / FORKS))
    found: set[int] = set()
    for each in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or is another user's
            line = each.cmdline()
            named = any(name in argument for name in told for argument in line)
            if named or {CLIENT_SERVER, f"--address={address}"} <= {*line}:
                found |= {each.pid, *(child.pid for child in each.children())}
    return found
