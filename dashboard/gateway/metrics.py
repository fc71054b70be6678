"""Figures for Prometheus: the gateway's own, and those of the installation, which it asks for at each scrape.

The installation's counters begin at 0 when its directory starts. Every gateway shows the same ones: scrape one gateway,
or take the maximum.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from actors import Metrics

OWN = CollectorRegistry()

REQUESTS = Counter("agency_http_requests", "Requests answered.", ["method", "route", "status"], registry=OWN)
LATENCY = Histogram("agency_http_request_seconds", "Time to answer a request.", ["method", "route"], registry=OWN)
OPEN_FEEDS = Gauge("agency_feeds_open", "Live connections, WebSockets and server-sent events.", registry=OWN)
CONNECTIONS = Gauge("agency_connections_open", "Connections of clients, live ones among them.", registry=OWN)
CONNECTIONS_CLOSED = Counter(
    "agency_connections_closed",
    "Connections that were closed on clients: to make `room` for others, because they were `slow`, or because all were "
    "at work (`full`).",
    ["why"],
    registry=OWN,
)
RATE_LIMITED = Counter("agency_rate_limited", "Requests that met a rate, by whose.", ["of"], registry=OWN)
FEED_LAG = Histogram(
    "agency_feed_lag_seconds",
    "From an event's commit to its leaving for a client that was listening.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=OWN,
)


COUNTERS = {
    "runs_started": "Runs that began.",
    "runs_recovered": "Runs that were taken up again after their process died or was stopped.",
    "turns": "Turns of runs: model calls and what they led to.",
    "model_calls": "Calls of models.",
    "model_failures": "Calls of models that failed; those that were tried again are among them.",
    "model_retries": "Calls of models that were made again, after a failure or a process's death.",
    "model_calls_unpriced": "Calls of models whose price is unknown.",
    "cost_usd": "Cost of the model calls whose price is known, in US dollars.",
    "tool_calls": "Calls of tools.",
    "tool_errors": "Calls of tools that failed.",
    "tool_retries": "Calls of tools that were made again, after a failure or a process's death.",
    "approvals_asked": "Calls that a person was asked about.",
    "approvals_answered": "Calls that were decided on, by a person or by their deadline.",
    "subagents_spawned": "Threads that other threads have started.",
    "activations": "Threads that were woken in a host.",
    "hibernations": "Threads that left memory.",
    "host_deaths": "Hosts that died.",
    "hosts_replaced": "Those of them that were ended because they answered no more.",
}
GAUGES = {
    "awake": ("threads_awake", "Threads in memory."),
    "hibernated": ("threads_hibernated", "Threads that are nothing but a file."),
    "approvals_waiting": ("approvals_waiting", "Threads that wait for a person."),
    "alarms": ("alarms", "Threads that sleep until a certain time."),
    "uptime_seconds": ("uptime_seconds", "Since the directory began, and with it the counters."),
}


class _InstallationMetrics(Collector):
    """The installation's figures at the time of one scrape."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        found = self._metrics
        for field, meaning in COUNTERS.items():
            yield CounterMetricFamily(f"agency_{field}", meaning, value=getattr(found, field))
        ended = CounterMetricFamily("agency_runs_ended", "Runs that ended, by how.", labels=["status"])
        for status, count in (
            ("completed", found.runs_completed),
            ("canceled", found.runs_canceled),
            ("error", found.runs_failed),
        ):
            ended.add_metric([status], count)
        yield ended
        tokens = CounterMetricFamily("agency_tokens", "Tokens of model calls.", labels=["direction"])
        tokens.add_metric(["in"], found.tokens_in)
        tokens.add_metric(["out"], found.tokens_out)
        yield tokens
        cache = CounterMetricFamily(
            "agency_cache_tokens",
            "Incoming tokens that were read from providers' caches or written to them.",
            labels=["use"],
        )
        cache.add_metric(["read"], found.tokens_cached)
        cache.add_metric(["written"], found.tokens_cache_written)
        yield cache
        for field, (name, meaning) in GAUGES.items():
            yield GaugeMetricFamily(f"agency_{name}", meaning, value=getattr(found, field))
        hosts = GaugeMetricFamily("agency_hosts", "Hosts, by state.", labels=["state"])
        for state, count in found.hosts.items():
            hosts.add_metric([state], count)
        yield hosts


def exposition(metrics: Metrics) -> bytes:
    registry = CollectorRegistry()
    registry.register(_InstallationMetrics(metrics))
    return generate_latest(OWN) + generate_latest(registry)
