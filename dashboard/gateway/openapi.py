"""The OpenAPI document: FastAPI's own, made true where FastAPI cannot know better.

`python -m dashboard.gateway.openapi` prints it without starting anything. The types of the web app are generated from
that, so the document says exactly what goes over the wire: every field that an answer always has is required there, the
tag of a tagged union is required, and the fields that the stock middleware add to a thread's state are described. Each
operation says as `x-role` what it asks of its caller, which is what `access` checks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import iter_route_contexts

from agency.define.hooks import ChildLink
from agency.events import Event
from dashboard.gateway.access import access_of
from dashboard.gateway.examples import EXAMPLES
from dashboard.gateway.problems import Problem
from middleware.planning import Todo

REF = "#/components/schemas/"
SCHEMA: dict[str, Any] = {"ref_template": f"{REF}{{model}}", "mode": "serialization"}

BESIDE_ROUTES = (Problem, Event, Todo, ChildLink)
"""What no route has in its signature: refusals, what sockets send, and what middleware add to a state."""

STATE = {
    "todos": {"type": "array", "items": {"$ref": f"{REF}Todo"}, "description": "The agent's plan."},
    "files": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "What is in each of the agent's text files, by path.",
    },
    "subagents": {
        "type": "array",
        "items": {"$ref": f"{REF}ChildLink"},
        "description": "The threads that this one has started.",
    },
    "unavailable": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "Why middleware are not open, by their names: their tools are not available.",
    },
}
"""What `planning`, `filesystem` and `subagents` add to a state, and what cannot be opened; a thread without them lacks
the fields."""


def describe(app: FastAPI) -> dict[str, Any]:
    """The document of an app. It is made once, because every 405 looks up its methods there."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = document["components"]["schemas"]
        _add_models(schemas)
        schemas["AgentState"]["properties"].update(STATE)
        for model, example in EXAMPLES.items():
            for name in (model.__name__, f"{model.__name__}-Input", f"{model.__name__}-Output"):
                if name in schemas:
                    schemas[name].setdefault("examples", [example])
        _require_tags(document)
        _add_roles(document, app)
        for path in document["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        app.openapi_schema = document
    return app.openapi_schema


def _add_models(schemas: dict[str, Any]) -> None:
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)  # how FastAPI refuses; this gateway sends a Problem
    for model in BESIDE_ROUTES:
        found = model.model_json_schema(**SCHEMA)
        schemas.update({name: each for name, each in found.pop("$defs", {}).items() if name not in schemas})
        schemas[model.__name__] = found


def _add_roles(document: dict[str, Any], app: FastAPI) -> None:
    described = (route for route in iter_route_contexts(app.routes) if getattr(route, "include_in_schema", False))
    asked = {route.unique_id: access_of(route.dependant) for route in described}
    for path in document["paths"].values():
        for operation in path.values():
            operation["x-role"] = asked[operation["operationId"]]


def _require_tags(document: dict[str, Any]) -> None:
    """A member of a tagged union has a default for its tag in Python; over the wire the tag is never left out."""
    schemas = document["components"]["schemas"]
    for union in _unions(document):
        tag = union["discriminator"]["propertyName"]
        for reference in union["discriminator"]["mapping"].values():
            required = schemas[reference.removeprefix(REF)].setdefault("required", [])
            if tag not in required:
                required.append(tag)


def _unions(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, list):
        for each in part:
            yield from _unions(each)
    elif isinstance(part, dict):
        if isinstance(part.get("discriminator"), dict) and "mapping" in part["discriminator"]:
            yield part
        for each in part.values():
            yield from _unions(each)


def main() -> None:
    from dashboard.gateway.app import create_app  # here, because the app takes its document from this module
    from dashboard.gateway.settings import GatewaySettings

    json.dump(describe(create_app(GatewaySettings())), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
