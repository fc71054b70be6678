"""Threads and agencies as actors on Ray: placed, woken, put to sleep and recovered by themselves."""

from actors.agency.agency import ThreadListing
from actors.agency.keys import agency_of_key
from actors.cluster.cluster import AgencyHandle, Cluster, ThreadHandle
from actors.settings import Settings
from actors.status import HostStatus, Metrics, NodeStatus, Readiness, Status

__all__ = [
    "AgencyHandle",
    "Cluster",
    "HostStatus",
    "Metrics",
    "NodeStatus",
    "Readiness",
    "Settings",
    "Status",
    "ThreadHandle",
    "ThreadListing",
    "agency_of_key",
]
