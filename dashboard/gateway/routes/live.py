"""Events: stored ones in pages or all at once, and live ones as they happen; from any number on, without a gap or a
repeat.

Events go out as the JSON that threads give: nothing here parses them, so a page or a feed costs the gateway little.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from functools import partial
from typing import Annotated, Any, Literal

import structlog
from fastapi import APIRouter, Header, Query, Request, WebSocket
from pydantic import Field
from starlette.responses import Response
from starlette.websockets import WebSocketDisconnect

from actors import Cluster, ThreadHandle
from actors.address import Address
from agency.api import bodies as api
from agency.errors import AgencyError, InvalidInput, NotFound
from dashboard.gateway.access import Doorkeeper, Follower, Principal, TheCluster, cluster_of, follower_of, is_live
from dashboard.gateway.guard import check_caller
from dashboard.gateway.json_route import JsonRoute
from dashboard.gateway.live import (
    STREAM,
    EventSource,
    LiveConnections,
    LiveStream,
    StillValid,
    WholeHistory,
    over_socket,
)
from dashboard.gateway.parameters import After, AgencyId, ThreadId
from dashboard.gateway.problems import as_problem, refusals
from dashboard.gateway.settings import GatewaySettings

router = APIRouter(route_class=JsonRoute, tags=["events"])
log = structlog.get_logger(__name__)

PAGE = 1_000
PIECE = 250
"""So many events at a time, of an answer that has all of them."""

LastEventId = Annotated[
    int | None,
    Header(ge=0, lt=2**63, description="For server-sent events: begin after this number, instead of `after`."),
]
AfterOrNow = Annotated[
    Annotated[int, Field(ge=0, lt=2**63)] | Literal["now"],
    Query(description="Begin after this `cursor`; 0 is the beginning. A live feed may also begin `now`."),
]
LimitOrAll = Annotated[
    int | None, Query(ge=1, le=PAGE, description="The most that a page has. Without it, the answer has all events.")
]
Numbered = tuple[int, str]


def _pages(model: type[Any]) -> dict[int | str, dict[str, Any]]:
    """How the API's description shows a route that answers with a page or with a stream."""
    both = "All events, or a page; or, with `Accept: text/event-stream`, all events and then those to come."
    return {200: {"model": model, "description": both, "content": {STREAM: {"schema": {"type": "string"}}}}}


@router.get(
    "/agency/{agency_id}/agent/{thread_id}/events",
    responses={**refusals(404), **_pages(api.EventPage)},
    response_model=api.EventPage,
)
async def thread_events(
    request: Request,
    cluster: TheCluster,
    who: Follower,
    agency_id: AgencyId,
    thread_id: ThreadId,
    after: After = 0,
    limit: LimitOrAll = None,
    last_event_id: LastEventId = None,
) -> Response:
    """A thread's events after a seq: all of them, or with `limit` a page. Seqs count from 1 without a gap and never
    expire."""
    thread = cluster.thread(agency_id, thread_id)
    if is_live(request):
        await thread.metadata()
        begin = after if last_event_id is None else last_event_id
        return _stream(request, who, partial(cluster.subscribe, thread.address, begin))

    async def page(after: int, limit: int) -> list[Numbered]:
        found = await thread.stored_events_json(after, limit)
        return list(enumerate(found, after + 1))

    return await _stored(request, page, after, limit)


@router.get(
    "/agency/{agency_id}/events",
    responses={**refusals(404), **_pages(api.AgencyEventPage)},
    response_model=api.AgencyEventPage,
)
async def agency_events(
    request: Request,
    cluster: TheCluster,
    who: Follower,
    agency_id: AgencyId,
    after: AfterOrNow = 0,
    limit: LimitOrAll = None,
    last_event_id: LastEventId = None,
) -> Response:
    """The stored events of all of an agency's threads after a cursor: all of them, or with `limit` a page. Cursors
    count from 1 and never expire."""
    agency = cluster.agency(agency_id)
    if is_live(request):
        latest = await agency.cursor()
        begin = last_event_id if last_event_id is not None else latest if after == "now" else after
        return _stream(request, who, partial(cluster.subscribe_agency, agency_id, begin))
    if after == "now":
        raise InvalidInput("a page begins after a number; only live events can begin `now`")
    return await _stored(request, partial(cluster.agency_events, agency_id), after, limit)


Page = Callable[[int, int], Awaitable[list[Numbered]]]
"""The events after a number, at most so many; fewer only if there are no more."""


async def _stored(request: Request, page: Page, after: int, limit: int | None) -> Response:
    """An `EventPage` or `AgencyEventPage`, written around events that are JSON already."""
    found = await page(after, limit or PIECE)
    events = [event for _, event in found]
    if limit is None:
        settings: GatewaySettings = request.app.state.settings
        return WholeHistory(events, _rest(page, found), settings.slow)
    following = found[-1][0] if len(found) == limit else "null"
    return Response(f'{{"events":[{",".join(events)}],"next":{following}}}', media_type="application/json")


async def _rest(page: Page, found: list[Numbered]) -> AsyncIterator[list[str]]:
    while len(found) == PIECE:
        found = await page(found[-1][0], PIECE)
        yield [event for _, event in found]


def _still_valid(connection: Request | WebSocket, who: Principal) -> StillValid:
    doorkeeper: Doorkeeper = connection.app.state.doorkeeper
    return partial(doorkeeper.still_valid, cluster_of(connection), who)


def _stream(request: Request, who: Principal, subscribe: Callable[[], EventSource]) -> Response:
    return LiveStream(subscribe, request.app.state.live_connections, who.agency, _still_valid(request, who))


# Sockets. They are no routes of FastAPI's, which takes as long to find what a function wants as all else takes here.


async def thread_socket(websocket: WebSocket) -> None:
    """Events of a thread as they happen, with the text that models stream; with `?after=`, first all after that seq."""
    agency_id, thread_id = websocket.path_params["agency_id"], websocket.path_params["thread_id"]

    async def subscribe(cluster: Cluster) -> EventSource:
        thread, after = cluster.thread(agency_id, thread_id), _after(websocket)
        if after is None:
            after = await _connections(websocket).latest.ask(thread.address, partial(_seq, thread))
        else:
            await thread.metadata()
        return cluster.subscribe(Address(agency_id, thread_id), after)

    await _serve(websocket, agency_id, subscribe)


async def agency_socket(websocket: WebSocket) -> None:
    """Events of an agency's threads as they happen; with `?after=`, first all that are stored after that cursor."""
    agency_id = websocket.path_params["agency_id"]

    async def subscribe(cluster: Cluster) -> EventSource:
        agency, after = cluster.agency(agency_id), _after(websocket)
        latest = await _connections(websocket).latest.ask(agency_id, agency.cursor)
        return cluster.subscribe_agency(agency_id, latest if after is None else after)

    await _serve(websocket, agency_id, subscribe)


async def no_socket(websocket: WebSocket) -> None:
    await websocket.send_denial_response(as_problem(NotFound("there is no socket at this address")))


for path, socket in (
    ("/agency/{agency_id}/agent/{thread_id}/ws", thread_socket),
    ("/agency/{agency_id}/agent/{thread_id}", thread_socket),
    ("/agency/{agency_id}/ws", agency_socket),
    ("/{path:path}", no_socket),
):
    router.add_websocket_route(path, socket)


async def _serve(websocket: WebSocket, agency_id: str, subscribe: Callable[[Cluster], Awaitable[EventSource]]) -> None:
    connections = _connections(websocket)
    try:
        check_caller(websocket)
        who = await follower_of(websocket)
        who.check(agency_id, "viewer")
        with connections.place(who.agency), closing(await subscribe(cluster_of(websocket))) as source:
            await websocket.accept()
            why = await over_socket(websocket, source, connections, _still_valid(websocket, who))
            log.info("socket closed", path=websocket.url.path, why=why, **websocket.path_params)
    except AgencyError as error:
        await websocket.send_denial_response(as_problem(error))
    except WebSocketDisconnect:
        return  # it has left before its socket was open


def _connections(websocket: WebSocket) -> LiveConnections:
    connections: LiveConnections = websocket.app.state.live_connections
    return connections


async def _seq(thread: ThreadHandle) -> int:
    return (await thread.info()).seq


def _after(websocket: WebSocket) -> int | None:
    """After which number a socket begins; None is now. What is the latest number then is asked before the socket opens,
    so that it misses nothing after that."""
    given = websocket.query_params.get("after") or "now"
    if given == "now":
        return None
    if not (given.isascii() and given.isdigit() and len(given) < 20 and int(given) < 2**63):
        raise InvalidInput(f"after is a whole number from 0, or `now`, not {given!r:.100}")
    return int(given)
