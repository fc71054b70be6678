"""The installation itself: whether it is ready, what it is doing, its figures, and tickets to its sockets."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response, status
from prometheus_client import CONTENT_TYPE_LATEST

from actors import Status
from agency.api import bodies as api
from agency.errors import Unavailable
from dashboard.gateway.access import AnyPrincipal, Doorkeeper, Owner, TheCluster
from dashboard.gateway.health import HealthCheck
from dashboard.gateway.metrics import exposition
from dashboard.gateway.parameters import After
from dashboard.gateway.problems import refusals, without_paths
from dashboard.gateway.rates import client_of

router = APIRouter(tags=["installation"])

_PROMETHEUS = {"description": "In Prometheus' text format.", "content": {"text/plain": {"schema": {"type": "string"}}}}


@router.get("/healthz", responses=refusals())
async def healthz(request: Request, cluster: TheCluster) -> api.Health:
    """Whether a thread could run now: a host answers, and the data folder can be written. It needs no secret, so the
    reason why not names no folder of the server."""
    health: HealthCheck = request.app.state.health
    found = await health.of(cluster)
    if not found.ready:
        raise Unavailable(without_paths(found.told or found.reason))
    return api.Health(hosts=found.hosts)


@router.get("/status", responses=refusals())
async def installation_status(cluster: TheCluster, owner: Owner) -> Status:
    """Nodes, hosts, and which threads are awake on which host."""
    return await cluster.status()


@router.get("/metrics", response_class=Response, responses={**refusals(), 200: _PROMETHEUS})
async def metrics(cluster: TheCluster, owner: Owner) -> Response:
    """Figures for Prometheus."""
    return Response(exposition(await cluster.metrics()), media_type=CONTENT_TYPE_LATEST)


@router.get("/logs", responses=refusals())
async def server_log(cluster: TheCluster, owner: Owner, after: After = 0) -> api.ServerLog:
    """The latest lines of the server's log: what agents' code prints and raises, and warnings of hosts."""
    return await cluster.server_log(after)


@router.post("/tickets", status_code=status.HTTP_201_CREATED, responses=refusals())
async def issue_ticket(request: Request, cluster: TheCluster, who: AnyPrincipal) -> api.Ticket:
    """Get a ticket, which opens one live feed that you may follow, within 30 seconds: for sockets in browsers. If you
    have too many that are not used, the oldest of them is gone."""
    doorkeeper: Doorkeeper = request.app.state.doorkeeper
    return await doorkeeper.issue(cluster, who, client_of(request))
