"""Schedules: when an agency starts threads by itself, and what came of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, status

from agency.api import schedule_bodies as api
from agency.schedules.schedule import ScheduleInfo, SchedulePage, ScheduleRun, ScheduleRunPage
from dashboard.gateway.access import Admin, Heavy, Operator, Principal, TheCluster, Viewer, may
from dashboard.gateway.json_route import json_of
from dashboard.gateway.parameters import After, AgencyId, Limit, ScheduleId
from dashboard.gateway.problems import refusals
from dashboard.gateway.routes.agencies import derived

router = APIRouter(route_class=json_of("schedule_bytes"), prefix="/agency/{agency_id}/schedules", tags=["schedules"])


@router.get("", dependencies=[Viewer], responses=refusals(404))
async def list_schedules(
    cluster: TheCluster, agency_id: AgencyId, after: After = 0, limit: Limit = 100
) -> SchedulePage:
    """The agency's schedules, the oldest first."""
    return await cluster.agency(agency_id).schedules(after, limit)


@router.post("", status_code=status.HTTP_201_CREATED, dependencies=[Admin, Heavy], responses=refusals(404, 409))
async def create_schedule(cluster: TheCluster, agency_id: AgencyId, body: api.NewSchedule) -> ScheduleInfo:
    """Create a schedule: `once` at a time, at an `interval`, or by `cron` in a time zone."""
    key = body.idempotency_key
    schedule_id = None if key is None else derived("sch", agency_id, key)
    return await cluster.agency(agency_id).create_schedule(body.fields, schedule_id=schedule_id)


@router.get("/{schedule_id}", dependencies=[Viewer], responses=refusals(404))
async def get_schedule(cluster: TheCluster, agency_id: AgencyId, schedule_id: ScheduleId) -> ScheduleInfo:
    """A schedule, and its next time."""
    return await cluster.agency(agency_id).schedule(schedule_id)


@router.patch("/{schedule_id}", responses=refusals(404, 409))
async def change_schedule(
    cluster: TheCluster,
    agency_id: AgencyId,
    schedule_id: ScheduleId,
    who: Annotated[Principal, Depends(may("operator"))],
    given: api.ScheduleChange | None = None,
) -> ScheduleInfo:
    """Change, pause or resume a schedule. Fields that you leave out keep their values. A key with the role `operator`
    may pause and resume; other changes need `admin`."""
    body = given or api.ScheduleChange()
    if body.fields:
        who.check(agency_id, "admin")
    return await cluster.agency(agency_id).change_schedule(schedule_id, body.fields, body.status)


@router.delete("/{schedule_id}", status_code=status.HTTP_204_NO_CONTENT, dependencies=[Admin], responses=refusals(404))
async def delete_schedule(cluster: TheCluster, agency_id: AgencyId, schedule_id: ScheduleId) -> None:
    """Delete a schedule and its history. The threads that it started stay."""
    await cluster.agency(agency_id).delete_schedule(schedule_id)


@router.post(
    "/{schedule_id}/run",
    status_code=status.HTTP_201_CREATED,
    dependencies=[Operator, Heavy],
    responses=refusals(404, 409),
)
async def run_schedule(
    cluster: TheCluster, agency_id: AgencyId, schedule_id: ScheduleId, body: api.RunWanted | None = None
) -> ScheduleRun:
    """Run a schedule now. While a run of it is in progress, its `overlap` decides: `allow` starts another, `queue`
    starts it afterwards, and `skip` refuses."""
    key = None if body is None else body.idempotency_key
    run_id = None if key is None else derived("srn", agency_id, schedule_id, key)
    return await cluster.agency(agency_id).run_schedule(schedule_id, run_id=run_id)


@router.get("/{schedule_id}/runs", dependencies=[Viewer], responses=refusals(404))
async def list_runs(
    cluster: TheCluster, agency_id: AgencyId, schedule_id: ScheduleId, after: After = 0, limit: Limit = 100
) -> ScheduleRunPage:
    """The runs of a schedule, at its times and by hand, the newest first."""
    return await cluster.agency(agency_id).schedule_runs(schedule_id, after, limit)
