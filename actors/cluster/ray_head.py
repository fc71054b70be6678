"""The head of a local Ray: a program that starts Ray's processes and then becomes their leader (`ray_leader.py`). It is
run by its path, so that the process needs nothing of this project's.

What several machines or several users need is left out: Ray's client server, autoscaler and log monitor; and unless
Ray's own dashboard is wanted, also the server of that, the agents that report to it, and what is counted only for it.
No worker is started before there is something for it to do. Runtime environments are prepared by an agent that the
leader starts when the first one is asked for.

Ray listens on loopback only if its node's address is loopback.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from ray import _raylet
from ray._common.usage import usage_lib
from ray._private import ray_constants, services
from ray._private.node import Node
from ray._private.parameter import RayParams
from ray._private.utils import write_ray_address

names: Any = _raylet  # of which Ray has typed less than there is
get_localhost_ip = names.get_localhost_ip

CALM: dict[str, Any] = {
    "prestart_worker_first_driver": False,
    "raylet_report_resources_period_milliseconds": 1_000,
    "gcs_pull_resource_loads_period_milliseconds": 5_000,
    "raylet_check_gc_period_milliseconds": 2_000,
    "kill_idle_workers_interval_ms": 5_000,
    "memory_monitor_refresh_ms": 2_000,
    "gcs_server_rpc_server_thread_num": 1,
    "gcs_server_rpc_client_thread_num": 1,
    "event_stats": False,
}
"""One node has few processes, and no other node has to hear how busy it is."""

UNCOUNTED: dict[str, Any] = {
    "enable_metrics_collection": False,
    "metrics_report_interval_ms": 600_000,
    "task_events_report_interval_ms": 0,
}
"""It is read in Ray's dashboard alone."""

FORKS = "forks"
"""Where the fork server listens, in the private folder around Ray's."""

FIRST_JOB = "01000000"
"""As Ray numbers them, and writes numbers."""

WAITING = 128
"""Workers that wait for the fork server."""

NO_PORT = NO_SOCKET = -1
IDLE = 'sh -c "exec sleep infinity"'
"""In place of an agent, whatever else it is told: the raylet ends with its agents, so each has to be a process."""

WORKER = "--python_worker_command"
AGENT = "--runtime_env_agent_command"
INSTEAD = {"--num_prestart_python_workers": "0"}
INSTEAD_OF_AGENTS = {"--dashboard_agent_command": IDLE, AGENT: IDLE}
"""Options of the raylet."""


class Head(Node):
    """Ray's own way to start a head, except for what is left out."""

    def __init__(self, folder: str, forks: str, told: int, *, dashboard: bool) -> None:
        self._forks = forks
        self._told = told
        self._dashboard = dashboard
        self.agent: list[str] = []
        """The command of the agent that prepares runtime environments."""
        self.listening: socket.socket | None = None
        """Where that agent is to listen."""
        address = get_localhost_ip()
        params = RayParams(
            node_ip_address=address,
            node_name=address,
            temp_dir=folder,
            gcs_server_port=0,
            dashboard_agent_listen_port=0,
            include_dashboard=dashboard,
            include_log_monitor=False,  # type: ignore[arg-type]  # Ray's type is wrong
            no_monitor=True,
            ray_client_server_port=None,  # runs code for drivers on other machines
            _system_config={**CALM, **({} if dashboard else UNCOUNTED)},
        )
        super().__init__(params, head=True, shutdown_at_exit=False)

    def start_api_server(self, *, include_dashboard: bool | None, raise_on_failure: bool) -> None:
        if include_dashboard:
            super().start_api_server(include_dashboard=True, raise_on_failure=raise_on_failure)

    def start_raylet(self, *args: Any, **more: Any) -> None:
        start_process = services.start_ray_process

        def start(command: list[str], *args: Any, **more: Any) -> Any:
            return start_process(self._raylet(command), *args, **more)

        services.start_ray_process = start  # nothing that Ray calls in between could be told
        super().start_raylet(*args, **more)
        services.start_ray_process = start_process
        os.write(self._told, f"{self.raylet}\n".encode())
        os.close(self._told)

    @property
    def raylet(self) -> int:
        (started,) = self.all_processes[ray_constants.PROCESS_TYPE_RAYLET]
        pid: int = started.process.pid
        return pid

    def _raylet(self, command: list[str]) -> list[str]:
        """The raylet's command, from that which Ray would use."""
        instead = INSTEAD | {WORKER: self._worker(_value(command, WORKER))}
        if not self._dashboard:
            instead |= INSTEAD_OF_AGENTS
            self.listening = socket.create_server((self.node_ip_address, 0))
            port = self.listening.getsockname()[1]
            self.agent = [
                *shlex.split(_value(command, AGENT)),
                f"--runtime-env-agent-port={port}",
            ]  # the last one counts
            self._note_ports(port)
        names = [each.partition("=")[0] for each in command]
        return [
            f"{name}={instead[name]}" if name in instead else each for name, each in zip(names, command, strict=True)
        ]

    def _worker(self, stock: str) -> str:
        """The command of a worker: the program that asks the fork server, and what else it would be."""
        program = str(Path(__file__).with_name("ray_worker.py"))
        _, *rest = shlex.split(stock)
        return subprocess.list2cmdline([sys.executable, "-I", "-S", program, self._forks, *rest])

    def _note_ports(self, agent: int) -> None:
        """Where the agents listen, as they would note it themselves."""
        ports = {
            names.METRICS_AGENT_PORT_NAME: NO_PORT,
            names.METRICS_EXPORT_PORT_NAME: NO_PORT,
            names.DASHBOARD_AGENT_LISTEN_PORT_NAME: NO_PORT,
            names.RUNTIME_ENV_AGENT_PORT_NAME: agent,
        }
        for name, port in ports.items():
            names.persist_port(self.get_session_dir_path(), self.node_id, name, port)  # type: ignore[no-untyped-call]


def _value(command: list[str], name: str) -> str:
    return next(each.removeprefix(f"{name}=") for each in command if each.startswith(f"{name}="))


def start_fork_server(place: str) -> tuple[int, int]:
    """Its process, and a pipe on which it is to be told the raylet. It is for the first job."""
    heard, told = os.pipe()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen(WAITING)
        os.set_inheritable(listening.fileno(), True)
        program = str(Path(__file__).with_name("fork_server.py"))
        command = [sys.executable, "-P", program, str(listening.fileno())]
        environment = {**os.environ, "RAY_JOB_ID": FIRST_JOB}
        stdin = [(os.POSIX_SPAWN_DUP2, heard, 0)]
        pid = os.posix_spawn(sys.executable, command, environment, file_actions=stdin)
    os.close(heard)
    return pid, told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--dashboard", action="store_true")
    options = parser.parse_args()
    usage_lib.set_usage_stats_enabled_via_env_var(False)
    forks = str(Path(options.folder).parent / FORKS)
    server, told_to_it = start_fork_server(forks)
    node = Head(options.folder, forks, told_to_it, dashboard=options.dashboard)
    write_ray_address(node.gcs_address, options.folder)
    listening = NO_SOCKET
    if node.listening is not None:
        listening = node.listening.detach()
        os.set_inheritable(listening, True)
    told = {"raylet": node.raylet, "forks": server, "agent": node.agent, "listening": listening}
    leader = str(Path(__file__).with_name("ray_leader.py"))
    os.execv(sys.executable, [sys.executable, "-I", "-S", leader, json.dumps(told)])


if __name__ == "__main__":
    main()
