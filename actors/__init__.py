"""Threads and agencies as actors on Ray: placed, woken, put to sleep and recovered by themselves."""

from actors.agency.keys import agency_of_key
from actors.agency.threads import ThreadListing
from actors.cluster.agency_handle import AgencyHandle
from actors.cluster.cluster import Cluster, place_of
from actors.cluster.thread_handle import ThreadHandle
from actors.settings import Settings
from actors.status import AgencyHostStatus, HostStatus, Metrics, NodeStatus, RayInUse, Readiness, Status

__all__ = [
    "AgencyHandle",
    "AgencyHostStatus",
    "Cluster",
    "HostStatus",
    "Metrics",
    "NodeStatus",
    "RayInUse",
    "Readiness",
    "Settings",
    "Status",
    "ThreadHandle",
    "ThreadListing",
    "agency_of_key",
    "place_of",
]
