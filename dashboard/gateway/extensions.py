"""Extensions: the routes that middleware bring, mounted below `/agency/{agencyId}/x/{name}/`.

The one idea: the gateway knows what a route is and no extension by name. Every request passes what its own routes pass:
the checks of `Guard`, the credential, the role in the agency. Only a webhook needs no credential, and it runs nothing
before it has verified the request. A route acts through a client of this same app, as its caller and in the caller's
agency only, so it can do nothing that the caller could not.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
import structlog
from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic_core import to_jsonable_python
from starlette.types import Receive, Scope, Send

from agency.api.extensions import ExtensionList
from agency.client import AsyncAgency
from agency.client.asynchronous import AsyncTransport
from agency.client.connection import Target
from agency.define.hooks import AnyMiddleware
from agency.define.system import AgentSystem, declared_by
from agency.errors import DefinitionError, Unauthorized
from agency.extension import Extension, Route, RouteRequest
from agency.secrets import Declared, free_of_secrets
from dashboard.gateway.access import SCHEMES, VOUCHED, AnyPrincipal, Principal, cluster_of, may
from dashboard.gateway.json_route import JsonRoute
from dashboard.gateway.parameters import AgencyId
from dashboard.gateway.problems import refusals

log = structlog.get_logger(__name__)

COMMANDS = frozenset(
    (
        "agencies",
        "approve",
        "budget",
        "call",
        "cancel",
        "chat",
        "compare",
        "doctor",
        "down",
        "edit",
        "extensions",
        "fork",
        "inbox",
        "invoke",
        "keys",
        "lift",
        "limits",
        "logs",
        "new",
        "pause",
        "policy",
        "providers",
        "rename",
        "resume",
        "retry",
        "run",
        "schedules",
        "search",
        "serve",
        "settle",
        "shelf",
        "status",
        "threads",
        "up",
        "usage",
    )
)
"""The names that `agency` has for commands of its own."""

SECRET_HEADERS = frozenset(("authorization", "proxy-authorization", "x-secret", "cookie"))
CALL_SECONDS = 30.0

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
Segment = Annotated[str, Path(min_length=1, max_length=256)]


def routers_of(system: AgentSystem | None) -> Iterator[APIRouter]:
    """The routes that the middleware of a system bring, and the list of what they bring."""
    found = [each for each in system.middleware if hasattr(each, "extension")] if system is not None else []
    extensions = {each.name: _extension(each) for each in found}
    listed = ExtensionList(extensions=tuple(each.info(name) for name, each in extensions.items()))
    index = APIRouter(tags=["extensions"], dependencies=list(SCHEMES))

    @index.get("/extensions", responses=refusals())
    async def list_extensions(who: AnyPrincipal) -> ExtensionList:
        """What the middleware of the system bring: routes, commands of `agency`, panels of the dashboard."""
        return listed

    yield index
    for middleware in found:
        name, secrets = middleware.name, declared_by(middleware)
        router = APIRouter(prefix=f"/agency/{{agency_id}}/x/{name}", tags=[name], route_class=JsonRoute)
        for route in extensions[name].routes:
            _add(router, name, route, secrets)
        yield router


def _extension(middleware: AnyMiddleware) -> Extension:
    where, extension = f"middleware {middleware.name!r}", getattr(middleware, "extension", None)
    if not isinstance(extension, Extension):
        raise DefinitionError(f"{where}: `extension` is an Extension, not {extension!r:.100}")
    if not _NAME.fullmatch(middleware.name):
        raise DefinitionError(f"{where} brings an extension, so its name has letters, digits, '-' and '_' only")
    if extension.commands and middleware.name in COMMANDS:
        raise DefinitionError(f"{where} brings commands, but `agency {middleware.name}` is another one: rename it")
    return extension


def _add(router: APIRouter, name: str, route: Route, secrets: Declared) -> None:
    who = Depends(may(route.needed)) if route.verify is None else Depends(_agency_of(route))
    parameters = [("request", Request), ("agency_id", AgencyId), ("principal", Annotated[Principal, who])]
    parameters += [(each, Segment) for each in route.names]
    if route.body is not None and route.verify is None:
        parameters.append(("body", route.body))
    router.add_api_route(
        f"/{route.path}",
        _endpoint(route, secrets, parameters),
        methods=[route.method],
        response_model=None,
        dependencies=[] if route.verify is not None else list(SCHEMES),
        name=f"{name}_{route.method}_{route.path}".lower().translate(_AS_NAME),
        description=route.info().description,
        responses={
            **refusals(404),
            200: {"description": "What the extension answers."},
            204: {"description": "The extension has done it, and has nothing to say."},
        },
    )


_AS_NAME = {ord(each): "_" for each in "/.-{}"}


def _endpoint(route: Route, secrets: Declared, parameters: list[tuple[str, Any]]) -> Callable[..., Awaitable[Response]]:
    """A function with these parameters, from which FastAPI reads what to check and to describe."""

    async def endpoint(request: Request, principal: Principal, **given: object) -> Response:
        given.pop("body", None)  # it was checked; the route reads the content
        agency_id = str(given.pop("agency_id"))
        names = {name: str(value) for name, value in given.items()}
        async with _acting(request, agency_id, principal) as agency:
            asked = await _request(request, agency, secrets, names)
            if route.verify is not None:
                await _verify(route, asked)
            if route.verify is not None or principal.is_owner:
                await cluster_of(request).agency(agency_id).info()  # `NotFound`, if there is none
            answer = await route.handle(asked)
        if answer is None:
            return Response(status_code=204)
        return JSONResponse(free_of_secrets(to_jsonable_python(answer, by_alias=True)))

    kind = inspect.Parameter.KEYWORD_ONLY
    signature = inspect.Signature([inspect.Parameter(name, kind, annotation=each) for name, each in parameters])
    endpoint.__signature__ = signature  # type: ignore[attr-defined]  # functions may have one
    return endpoint


async def _verify(route: Route, asked: RouteRequest) -> None:
    """Have a webhook verify a request, and check its body only then: FastAPI would tell strangers what it takes."""
    assert route.verify is not None
    try:
        genuine = await route.verify(asked)
    except Exception as error:  # strangers learn nothing of what is wrong with it
        log.error("webhook could not verify a request", route=route.address, exc_info=error)
        genuine = False
    if not genuine:
        raise Unauthorized("this request is not from where it says")
    if route.body is not None:
        asked.read(route.body)


def _agency_of(route: Route) -> Callable[..., Awaitable[Principal]]:
    """A dependency of webhooks: no credential; once it is verified, it acts in the agency of the path."""

    async def principal(agency_id: AgencyId) -> Principal:
        return Principal(agency=agency_id, role=route.needed)

    return principal


async def _request(request: Request, agency: AsyncAgency, secrets: Declared, names: dict[str, str]) -> RouteRequest:
    headers = {name: value for name, value in request.headers.items() if name not in SECRET_HEADERS}
    content = await request.body()
    return RouteRequest(agency, secrets, names, dict(request.query_params), headers, content)


@asynccontextmanager
async def _acting(request: Request, agency_id: str, principal: Principal) -> AsyncIterator[AsyncAgency]:
    """A client of this app with the rights that a principal has in one agency."""
    vouched = principal.model_copy(update={"agency": agency_id})

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await request.app({**scope, VOUCHED: vouched}, receive, send)

    client = (request.client.host, request.client.port) if request.client is not None else ("127.0.0.1", 0)
    inside = httpx.ASGITransport(app, client=client)
    transport = AsyncTransport(Target("http://localhost", None), CALL_SECONDS, inside)
    try:
        yield AsyncAgency(transport, agency_id)
    finally:
        await transport.close()
