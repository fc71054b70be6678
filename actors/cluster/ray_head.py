"""The head of a local Ray: `ray start`, and what that has no options for. It is run by its path, as a program, so that
the process needs nothing of this project's.

The one idea: Ray listens on loopback only if its node's address is loopback. `--node-ip-address=127.0.0.1` is replaced
by the machine's address on the network, but whatever Ray's own hook for the start sets is taken as it is.
"""

from __future__ import annotations

import os
import sys
from typing import Any

HOOK = "RAY_START_HOOK"


def on_loopback(node: Any, head: bool) -> None:
    """What Ray calls with the parameters of the node that it is about to start."""
    from ray._raylet import get_localhost_ip  # type: ignore[attr-defined]  # Ray's

    del os.environ[HOOK]  # it is not for Rays that tools start
    node.node_ip_address = node.node_name = get_localhost_ip()
    node.ray_client_server_port = None  # runs code for drivers on other machines


if __name__ == "__main__":
    from ray.scripts.scripts import main

    sys.path.pop(0)  # the folder of this file, which is no place to import from
    os.environ[HOOK] = "__main__.on_loopback"
    main()  # type: ignore[no-untyped-call]  # Ray's
