"""Refusals: each is `application/problem+json` (RFC 9457) with a stable `code`.

The codes are those of `agency.errors`; here each gets its HTTP status. Unexpected errors become a 500 that carries only
a log id: a stack or a message might hold a secret.
"""

from __future__ import annotations

import asyncio
import http
import math
import re
import secrets
import sqlite3
from collections.abc import Mapping
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.exceptions import HTTPException

from agency import errors
from agency.errors import AgencyError, told_of
from agency.secrets import without_secrets
from agency.store.sqlite import as_store_error
from agency.wire import Wire, plain_problem
from dashboard.gateway.mounting import path_in_app
from dashboard.gateway.parsing import UNSAID

log = structlog.get_logger(__name__)

AGENCY_IDS = "agc_"
"""With which the ids of agencies begin that are made over HTTP."""

MEDIA = "application/problem+json"

STATUSES: dict[type[AgencyError], int] = {
    errors.InvalidInput: 400,
    errors.DefinitionError: 400,
    errors.SystemBroken: 503,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.WrongState: 409,
    errors.KeyReused: 409,
    errors.VersionConflict: 412,
    errors.TooLarge: 413,
    errors.RateLimited: 429,
    errors.Unavailable: 503,
    errors.StoreError: 503,
    errors.StorageFull: 507,
}
"""Every other error is a fault of this server: 500."""

HTTP_UNAUTHORIZED = 401
SERVERS_FAULT = 500
DETAIL_CHARS = 2_000
"""The longest text of a problem: what it repeats of a request may be as long as that."""
AGAIN_SECONDS = {429: 1, 503: 1, 507: 10}
"""After how many seconds clients are asked to try again, by status."""
LASTING_SECONDS = 60
"""The same for what a person has to mend."""

_PATH = re.compile(r"""(?<![\w:/])(?:(?P<quote>['"])/.*?(?P=quote)|(?:/[^\s,;:()'"/]+)+/?)""")


def without_paths(text: str) -> str:
    """For callers who are not known: the text with `…` in the place of folders and files of this machine. An error that
    names one has `told` instead: without quotes, a path with blanks cannot be told from other words."""
    return _PATH.sub(lambda path: f"{path['quote'] or ''}…{path['quote'] or ''}", text)


MEANINGS = {
    400: "The request is invalid; nothing was changed.",
    401: "The secret, key or ticket is missing or wrong.",
    403: "Your key does not allow this.",
    404: "This does not exist, or your key gives no access to it.",
    409: "This is not possible in the current state; nothing was changed.",
    412: "The entry has another version, or is there or not there against your condition; nothing was changed.",
    413: "The request is larger than this installation accepts.",
    429: "Too many requests; `Retry-After` says when to try again.",
    503: "This cannot be done now. `Retry-After` says when to try again; `code` tells a server that is busy or starts "
    "(`ERR_UNAVAILABLE`) from a file of it that is damaged (`ERR_DAMAGED`).",
    507: "The server's disk or quota is full, or it may only read there; nothing of this was kept.",
}


class Problem(Wire):
    """Why a request was refused."""

    type: str = Field(description="A name for this kind of problem.", examples=["urn:agency:problem:ERR_NOT_FOUND"])
    title: str = Field(description="The HTTP status in words.", examples=["Not Found"])
    status: int = Field(description="The HTTP status.", examples=[404])
    detail: str = Field(description="What is wrong here, for people.", examples=["there is no agency 'bakery'"])
    code: str = Field(description="The same for ever, for programs.", examples=["ERR_NOT_FOUND"])


def problem(status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    title = http.HTTPStatus(status).phrase
    detail = detail if len(detail) <= DETAIL_CHARS else f"{detail[:DETAIL_CHARS]}…"
    body = Problem(type=f"urn:agency:problem:{code}", title=title, status=status, detail=detail, code=code)
    return JSONResponse(body.model_dump(), status, headers=dict(headers or {}), media_type=MEDIA)


def as_problem(error: Exception) -> JSONResponse:
    """The answer to a request that raised this."""
    match error:
        case AgencyError() if (status := _status(error)) is not None:
            return problem(status, error.code, told_by(error), _headers(error, status))
        case HTTPException(status_code=404):
            return problem(
                404, errors.NotFound.code, "there is nothing at this address; /openapi.json lists what there is"
            )
        case HTTPException(status_code=405):
            return problem(405, "ERR_METHOD", "this address does not take that method", error.headers)
        case HTTPException():
            return problem(error.status_code, errors.InvalidInput.code, str(error.detail), error.headers)
        case RequestValidationError():
            return problem(400, errors.InvalidInput.code, _explain(error))
        case sqlite3.Error() | OSError() if (known := as_store_error(error)) is not None:
            return as_problem(known)
        case _:
            code = error.code if isinstance(error, AgencyError) else AgencyError.code
            return problem(500, code, _internal(error))


def told_by(error: AgencyError) -> str:
    """What a caller reads of an error, in a refusal or as part of an answer: nothing of the machine that the server
    runs on. The log has the rest."""
    status = _status(error)
    if status is None:
        return _internal(error)
    if error.told:
        log.warning("refused", code=error.code, reason=str(error))
    told = without_secrets(told_of(error))
    return without_paths(told) if status >= SERVERS_FAULT else told


def _internal(error: Exception) -> str:
    number = secrets.token_hex(4)
    log.error("internal error", number=number, exc_info=error)
    return f"internal error; the server's log has it under id {number}"


def _headers(error: AgencyError, status: int) -> dict[str, str]:
    if status == HTTP_UNAUTHORIZED:
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, errors.RateLimited):
        return {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
    if status in AGAIN_SECONDS:
        lasting = isinstance(error, errors.Damaged | errors.NewerStore | errors.SystemBroken)
        return {"Retry-After": str(LASTING_SECONDS if lasting else AGAIN_SECONDS[status])}
    return {}


def _status(error: AgencyError) -> int | None:
    return next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), None)


def _explain(error: RequestValidationError) -> str:
    """The faults of a request in one line. It never repeats the input, which may be long or secret."""
    problems: dict[str, None] = {}  # each member of a union may report the same
    for each in error.errors():
        where = ".".join(str(part) for part in each["loc"] if part != "body")
        what = plain_problem(str(each["msg"]))
        problems[f"{where}: {what}" if where else what] = None
    return "; ".join(problems)


async def _handle(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, RequestValidationError) and _about_body(error) and not _is_json(request):
        error = errors.InvalidInput("a body is JSON, sent with `Content-Type: application/json`")
    if isinstance(error, errors.NotFound) and _is_no_id(request.path_params.get("agency_id"), error):
        error = errors.InvalidInput(f"{error}, and ids of agencies that were made here begin with {AGENCY_IDS}")
    answer = as_problem(error)
    if answer.status_code == 405:
        document = await asyncio.to_thread(request.app.openapi)
        answer.headers["Allow"] = ", ".join(_methods(document, path_in_app(request.scope)))
    return answer


def _is_no_id(agency_id: object, error: errors.NotFound) -> bool:
    """Whether it is the agency that was not found, and its id is none that this API gives. Code may choose other ids,
    and then they are found."""
    named = isinstance(agency_id, str) and not agency_id.startswith(AGENCY_IDS)
    return named and str(error) == str(errors.no_agency(str(agency_id)))


def _about_body(error: RequestValidationError) -> bool:
    return any(each["loc"][:1] == ("body",) for each in error.errors())


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    empty = request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers
    return empty or kind in UNSAID or kind == "application/json" or kind.endswith("+json")


def _methods(document: Mapping[str, Any], path: str) -> list[str]:
    """The methods of an address. A route knows only its own, so this looks them up in the OpenAPI document."""
    for template, methods in document["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template.replace("{path}", ".+")), path):
            return sorted(method.upper() for method in methods)
    return ["GET"]


def install(app: FastAPI) -> None:
    for kind in (AgencyError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _handle)


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: the statuses it may refuse with, besides those of every route."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": MEANINGS[status], "content": {MEDIA: {"schema": schema}}}
        for status in sorted({400, 401, 403, 413, 429, 503, 507, *statuses})
    }
