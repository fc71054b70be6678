"""All threads of an agency together: searching what was said in them, and figures over time."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query

from agency.api.overview import SearchPage, Statistics, StatisticsBy
from dashboard.gateway.access import Heavy, TheCluster, Viewer
from dashboard.gateway.json_route import JsonRoute
from dashboard.gateway.parameters import After, AgencyId
from dashboard.gateway.problems import refusals

router = APIRouter(route_class=JsonRoute, prefix="/agency/{agency_id}", tags=["usage"])


@router.get("/search", dependencies=[Viewer, Heavy], responses=refusals(404))
async def search(
    cluster: TheCluster,
    agency_id: AgencyId,
    q: Annotated[
        str,
        Query(
            min_length=1,
            max_length=500,
            description='Words that must all occur in a title or a message; "words in quotation marks" follow each '
            "other, -words must not occur, and the last word may be the beginning of one.",
        ),
    ],
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=100, description="The most that a page has.")] = 20,
) -> SearchPage:
    """Search the agency's threads by their titles and by what users and agents said. The best come first, each thread
    once, with the place that fits best."""
    return await cluster.agency(agency_id).search(q, after, limit)


@router.get("/statistics", dependencies=[Viewer, Heavy], responses=refusals(404))
async def statistics(
    cluster: TheCluster,
    agency_id: AgencyId,
    by: Annotated[StatisticsBy, Query(description="How long each span is. Hours are kept for two months.")] = "hour",
    since: Annotated[
        datetime | None, Query(description="Where to begin; without it, 24 hours or 30 days ago. UTC unless it says.")
    ] = None,
    agent: Annotated[str | None, Query(max_length=64, description="Only this agent.")] = None,
) -> Statistics:
    """Runs that ended, tokens, cost, working times and failed tool calls over time, of deleted threads too."""
    return await cluster.agency(agency_id).statistics(by, since, agent)
