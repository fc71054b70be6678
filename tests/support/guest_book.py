"""A capability that brings everything: a tool, routes, a webhook, commands and a panel. Its entries are on a shelf."""

from __future__ import annotations

import hmac
import secrets
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from agency import HookContext, InvalidInput, Middleware, ToolContext, secret, tool
from agency.extension import Action, Command, Extension, Panel, Route, RouteRequest
from agency.secrets import NoSecret

SHELF = "guest-book"
SIGNATURE = "x-guest-signature"


class Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    guest: Annotated[str, Field(min_length=1, description="Who came.")]
    says: str = "…"
    mood: Literal["glad", "sad"] = "glad"
    stars: Annotated[int, Field(ge=1, le=5)] = 5
    again: bool = False


async def list_entries(request: RouteRequest) -> JsonValue:
    """The entries, in no order."""
    found: list[JsonValue] = []
    async for each in request.agency.shelf_entries(SHELF):
        item = await request.agency.read_shelf(SHELF, each.path)
        found.append({"entry": each.path, **Entry.model_validate_json(item.content).model_dump()})
    return found


async def add_entry(request: RouteRequest) -> JsonValue:
    """Write into the book."""
    entry = request.read(Entry)
    if entry.guest == "Mallory":
        raise InvalidInput("Mallory has to stay outside")
    path = secrets.token_hex(4)
    await request.agency.write_shelf(SHELF, path, entry.model_dump_json())
    return {"entry": path}


async def remove_entry(request: RouteRequest) -> None:
    """Tear an entry out."""
    await request.agency.delete_shelf_entry(SHELF, request.names["entry"])


async def tell(request: RouteRequest) -> JsonValue:
    """What the request has brought here."""
    return {"names": dict(request.names), "query": dict(request.query), "headers": [*sorted(request.headers)]}


async def blurt(request: RouteRequest) -> JsonValue:
    """The body and, where it must not be, the key."""
    try:
        key = request.secret("key")
    except NoSecret as error:
        raise InvalidInput(str(error)) from error
    if request.body == "refuse":
        raise InvalidInput(f"not with {key}")
    return {"body": request.body, "key": key}


async def is_signed(request: RouteRequest) -> bool:
    wanted = hmac.new(request.secret("key").encode(), request.content, "sha256").hexdigest()
    return hmac.compare_digest(wanted, request.headers.get(SIGNATURE, ""))


async def summary(request: RouteRequest) -> JsonValue:
    """The book in words."""
    entries = await list_entries(request)
    assert isinstance(entries, list)
    return f"**{len(entries)}** guests came."


@tool
async def sign_book(guest: str, ctx: ToolContext) -> str:
    """Write into the guest book."""
    await ctx.shelf(SHELF).write(ctx.idempotency_key.replace(".", "-"), Entry(guest=guest).model_dump_json())
    return "Thanks."


class GuestBook(Middleware[None]):
    name = "guests"
    tags = ("guests",)
    secrets = {"key": secret("env:AGENCY_KEY_GUESTS")}
    extension = Extension(
        routes=(
            Route("GET", "entries", list_entries),
            Route("POST", "entries", add_entry, body=Entry, role="operator"),
            Route("DELETE", "entries/{entry}", remove_entry, role="admin"),
            Route("GET", "summary", summary),
            Route("GET", "told/{one}/and/{two}", tell),
            Route("POST", "blurted", blurt),
            Route("POST", "letter", add_entry, body=Entry, role="operator", verify=is_signed),
        ),
        commands=(
            Command("list", "GET entries", show="table"),
            Command("add", "POST entries"),
            Command("remove", "DELETE entries/{entry}"),
            Command("summary", "GET summary", show="markdown"),
        ),
        panels=(
            Panel(
                "book",
                "Guest book",
                "entries",
                columns=("guest", "says", "stars"),
                actions=(
                    Action("Write", "POST entries"),
                    Action("Tear out", "DELETE entries/{entry}", confirm="Is that entry really to go?"),
                ),
            ),
            Panel("words", "Guests in words", "summary", show="markdown"),
        ),
    )

    async def on_init(self, ctx: HookContext[None]) -> None:
        ctx.register_tool(sign_book)


guest_book = GuestBook()
