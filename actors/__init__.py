"""Threads and agencies as actors on Ray: placed, woken, put to sleep and recovered by themselves."""

from actors.agency import BlueprintInfo, ThreadPage
from actors.agency_store import AgencyInfo
from actors.cluster import AgencyHandle, Cluster, ThreadHandle
from actors.settings import Settings
from actors.status import HostStatus, NodeStatus, Status

__all__ = [
    "AgencyHandle",
    "AgencyInfo",
    "BlueprintInfo",
    "Cluster",
    "HostStatus",
    "NodeStatus",
    "Settings",
    "Status",
    "ThreadHandle",
    "ThreadPage",
]
