"""What an extension may be: what does not fit together is refused where it is made."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, JsonValue

from agency import AgentSystem, DefinitionError, InvalidInput, Middleware
from agency.extension import Action, Command, Extension, Panel, Route, RouteRequest
from agency.secrets import Declared
from dashboard.command import app
from dashboard.gateway.app import create_app
from dashboard.gateway.extensions import COMMANDS
from dashboard.gateway.settings import GatewaySettings
from tests.support.guest_book import guest_book


class Link(BaseModel):
    url: str


async def answer(request: RouteRequest) -> JsonValue:
    return None


async def genuine(request: RouteRequest) -> bool:
    return True


def at_once(request: RouteRequest) -> JsonValue:
    return None


class Nothing(BaseModel):
    pass


LIST = Route("GET", "notes", answer)
HOOK = Route("POST", "hook", answer, verify=genuine)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"routes": (LIST, LIST)}, "more than one route 'GET notes'"),
        ({"routes": (Route("GET", "n/{a}", answer), Route("GET", "n/{b}", answer))}, "more than one route 'GET n/{}'"),
        ({"routes": (Route("GET", "/notes", answer),)}, "without a slash at its beginning"),
        ({"routes": (Route("GET", "notes/..", answer),)}, "a path is like"),
        ({"routes": (Route("GET", "{a}/{a}", answer),)}, "used once"),
        ({"routes": (Route("GET", "{agency_id}", answer),)}, "none of agency_id"),
        ({"routes": (Route("GET", "notes", answer, body=Nothing),)}, "GET has no body"),
        ({"routes": (Route("GET", "notes", at_once),)}, "'at_once' must be async"),  # type: ignore[arg-type]
        ({"routes": (Route("HEAD", "notes", answer),)}, "a method is one of GET"),  # type: ignore[arg-type]
        ({"routes": (Route("GET", "notes", answer, role="god"),)}, "a role is one of"),  # type: ignore[arg-type]
        ({"routes": (LIST,), "commands": (Command("a b", "GET notes"),)}, "a name has"),
        ({"routes": (LIST,), "commands": (Command("list", "GET nots"),)}, "no route 'GET nots'; there are: GET notes"),
        ({"routes": (HOOK,), "commands": (Command("hook", "POST hook"),)}, "a webhook, which people cannot call"),
        ({"routes": (LIST,), "panels": (Panel("p", "P", "other"),)}, "no route 'GET other'"),
        ({"routes": (Route("GET", "n/{a}", answer),), "panels": (Panel("p", "P", "n/{a}"),)}, "have no values there"),
        (
            {
                "routes": (LIST, Route("DELETE", "n/{a}", answer)),
                "panels": (Panel("p", "P", "notes", show="facts", actions=(Action("X", "DELETE n/{a}"),)),),
            },
            "only a table has rows",
        ),
        ({"routes": (Route("GET", "n/{principal}", answer),)}, "names in a path are used once, and are none of"),
        (
            {"routes": (Route("POST", "n", answer, body=Link),), "commands": (Command("c", "POST n"),)},
            "command 'c': `--url` is an option of every command",
        ),
        (
            {"routes": (Route("GET", "n/{data_dir}", answer),), "commands": (Command("c", "GET n/{data_dir}"),)},
            "command 'c': `--data-dir` is an option of every command",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        Extension(**wrong)
    assert why in str(refused.value)


def test_an_extension_shadows_no_command_and_no_route() -> None:
    groups = {group.name for group in app.registered_groups}
    own = {each.name or getattr(each.callback, "__name__", "") for each in app.registered_commands}
    assert {name.replace("_", "-") for name in own | groups if name} == COMMANDS

    class Keys(Middleware[None]):
        name = "keys"
        tags = ("keys",)
        extension = Extension(routes=(LIST,), commands=(Command("list", "GET notes"),))

    with pytest.raises(DefinitionError, match="`agency keys` is another one: rename it"):
        create_app(GatewaySettings(), AgentSystem("demo:x").use(Keys()))
    plain = create_app(GatewaySettings()).openapi()["paths"]
    with_it = create_app(GatewaySettings(), AgentSystem("demo:x").use(guest_book)).openapi()["paths"]
    assert all(path.startswith("/agency/{agency_id}/x/guests/") for path in with_it.keys() - plain.keys())
    assert {path: with_it[path] for path in plain} == plain


def test_a_request_reads_its_body_or_says_what_is_wrong_with_it() -> None:
    def request(content: bytes) -> RouteRequest:
        return RouteRequest(agency=None, secrets=Declared("x", {}), content=content)  # type: ignore[arg-type]  # not called

    class Note(BaseModel):
        text: str

    assert request(b"").body is None and request(b'{"text": "a"}').body == {"text": "a"}
    assert request(b'{"text": "a"}').read(Note).text == "a"
    for wrong in (b"{", b"NaN", b"\xff"):
        with pytest.raises(InvalidInput, match="the body is not valid JSON"):
            _ = request(wrong).body
    with pytest.raises(InvalidInput, match="text: Field required"):
        request(b"{}").read(Note)


def test_what_is_no_extension_is_refused() -> None:
    class Odd(Middleware[None]):
        name = "odd"
        tags = ("odd",)
        extension = "routes"

    class Spaced(Middleware[None]):
        name = "a/b"
        tags = ("odd",)
        extension = Extension(routes=(LIST,))

    for wrong in (Odd(), Spaced()):
        with pytest.raises(DefinitionError, match="extension"):
            create_app(GatewaySettings(), AgentSystem("demo:x").use(wrong))


def test_a_route_that_may_change_something_needs_an_operator_unless_it_says_otherwise() -> None:
    assert (LIST.needed, HOOK.needed, Route("DELETE", "n", answer, role="viewer").needed) == (
        "viewer",
        "operator",
        "viewer",
    )
    assert Route("POST", "n", answer).info().role == "operator"
