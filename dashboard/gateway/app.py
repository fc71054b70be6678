"""The FastAPI app: routes, the layers before them, and the OpenAPI document."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from starlette.middleware.cors import CORSMiddleware

from agency.define.system import AgentSystem
from agency.secrets import remember_environment
from dashboard.gateway import problems
from dashboard.gateway.access import SCHEMES, AnyPrincipal, Doorkeeper
from dashboard.gateway.extensions import routers_of
from dashboard.gateway.guard import Guard
from dashboard.gateway.health import HealthCheck
from dashboard.gateway.intake import Intake
from dashboard.gateway.leaving import Leaving
from dashboard.gateway.live import LiveConnections
from dashboard.gateway.mounting import mount_path
from dashboard.gateway.openapi import describe
from dashboard.gateway.proxies import TrustedProxies
from dashboard.gateway.rates import GatewayRates
from dashboard.gateway.routes import (
    agencies,
    blueprints,
    files,
    inbox,
    installation,
    live,
    overview,
    pages,
    providers,
    schedules,
    settling,
    shelves,
    spending,
    threads,
)
from dashboard.gateway.settings import GatewaySettings
from dashboard.gateway.shares import Shares, most_connections
from dashboard.gateway.visit import HEADERS

DESCRIPTION = """\
Durable multi-agent threads. An agency has blueprints and threads; a thread is one agent's conversation, with one run
at a time. Everything that has happened in a thread is an event with a number.

Live events also come over WebSockets, at `/agency/{agencyId}/agent/{threadId}/ws` for one thread and at
`/agency/{agencyId}/ws` for all of an agency's, as JSON. With `?after=`, every event after that number comes first.
"""


CONDITIONS = ("If-Match", "If-None-Match", "Idempotency-Key")
"""Headers that say when a write to a shelf counts."""


def create_app(settings: GatewaySettings, system: AgentSystem | None = None) -> FastAPI:
    """The gateway's app, with what the system's middleware bring.

    It answers 503 until its server sets `app.state.cluster` to the joined `Cluster`."""
    remember_environment()
    app = FastAPI(
        title="Agency",
        version=version("agency"),
        description=DESCRIPTION,
        openapi_url=None,  # the route below needs the secret, which FastAPI's own does not
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.settings = settings
    app.state.cluster = None
    app.state.waits_for = ""
    app.state.health = HealthCheck()
    app.state.doorkeeper = Doorkeeper(settings.secret)
    app.state.live_connections = LiveConnections(settings.sockets, settings.beat, settings.slow)
    app.state.rates = GatewayRates(settings)
    app.state.parsing = asyncio.Lock()
    app.state.shares = Shares(most_connections(settings), "requests at work")
    problems.install(app)
    for each in (live, threads, agencies, blueprints, providers, schedules, spending, overview, inbox, files, shelves):
        app.include_router(each.router, dependencies=list(SCHEMES))
    for router in routers_of(system):
        app.include_router(router)
    app.include_router(installation.router)
    app.include_router(settling.router)
    app.include_router(pages.router)
    pages.BUILT.files()
    app.get("/openapi.json", include_in_schema=False)(_document)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]  # FastAPI's own way to change it
    app.add_middleware(Leaving)
    app.add_middleware(Guard, body_bytes=settings.body_bytes, intake=Intake(settings))
    if settings.cors_origins:  # around the guard, so that pages can read its refusals, too
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "X-SECRET", "Content-Type", "Last-Event-ID", *CONDITIONS],
            expose_headers=["ETag", "Retry-After", *HEADERS],
        )
    app.add_middleware(TrustedProxies, trusted=settings.trusted_proxies)
    return app


async def _document(request: Request, who: AnyPrincipal) -> dict[str, Any]:
    document: dict[str, Any] = await asyncio.to_thread(request.app.openapi)  # making it takes seconds
    mounted = mount_path(request.scope)
    return {**document, "servers": [{"url": mounted}]} if mounted else document
