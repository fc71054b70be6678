"""Figures for Prometheus: the gateway's own, and those of the installation behind it, asked for at each visit.

The installation's counters begin with its directory, and every gateway shows the same ones: scrape one, or take the
maximum.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from actors import Metrics

OWN = CollectorRegistry()

REQUESTS = Counter("agency_http_requests", "Requests answered.", ["method", "route", "status"], registry=OWN)
LATENCY = Histogram("agency_http_request_seconds", "Time to answer a request.", ["method", "route"], registry=OWN)
OPEN_FEEDS = Gauge("agency_feeds_open", "Live connections, WebSockets and server-sent events.", registry=OWN)
FEED_LAG = Histogram(
    "agency_feed_lag_seconds",
    "From an event's commit to its leaving for a client that was listening.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=OWN,
)


class _Installation(Collector):
    """One visit's look at the installation."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        raise NotImplementedError


def exposition(metrics: Metrics) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Installation(metrics))
    return generate_latest(OWN) + generate_latest(registry)
