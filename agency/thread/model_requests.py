"""What a model is asked with, put together from a surface and the thread's messages.

The one idea: the request is never stored. Its surface is, in pieces by their digests, so that what stays the same from
turn to turn (tools, most of the prompt) is kept once; the messages are the thread's own. So what a model was sent can
be had again for ever, by the same functions that made it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

from pydantic import JsonValue, TypeAdapter

from agency.define import output
from agency.define.asides import AsideQuestion
from agency.messages import Message
from agency.models.interface import (
    Capability,
    Model,
    ModelParams,
    PromptPart,
    Surface,
    ToolSpec,
    capabilities,
    described,
)
from agency.store import records
from agency.store.store import ThreadStore
from agency.wire import Wire

_TOOLS: TypeAdapter[tuple[ToolSpec, ...]] = TypeAdapter(tuple[ToolSpec, ...])

SHAPING: tuple[Literal["images", "structured_output"], ...] = ("images", "structured_output")
"""What a model can do that shapes a request."""


class StoredSurface(Wire):
    """A surface as it is stored: long texts by their digests."""

    model: str
    fallbacks: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    prompt: tuple[tuple[str | None, str], ...]
    tools: str
    params: ModelParams = ModelParams()
    output: dict[str, JsonValue] | None = None
    forgotten: int = 0
    note: str = ""
    able: dict[str, tuple[Capability, ...]] | None = None


def taken_apart(surface: Surface) -> tuple[str, dict[str, bytes]]:
    """The digest of a surface, and the pieces that it is stored as, by theirs; it is the last of them."""
    texts = [part.text.encode() for part in surface.prompt]
    tools = _TOOLS.dump_json(surface.tools)
    digests = [_digest(text) for text in texts]
    pieces = {**dict(zip(digests, texts, strict=True)), (tools_digest := _digest(tools)): tools}
    note = ""
    if surface.note:
        pieces[note := _digest(surface.note.encode())] = surface.note.encode()
    whole = StoredSurface(
        model=surface.model,
        fallbacks=surface.fallbacks,
        skipped=surface.skipped,
        prompt=tuple((part.by, digest) for part, digest in zip(surface.prompt, digests, strict=True)),
        tools=tools_digest,
        params=surface.params,
        output=surface.output,
        forgotten=surface.forgotten,
        note=note,
        able=surface.able,
    )
    body = whole.__pydantic_serializer__.to_json(whole)
    return (named := _digest(body)), {**pieces, named: body}


def put_together(store: ThreadStore, digest: str) -> Surface | None:
    """The surface of this digest, if the file has it."""
    if (body := records.surface_pieces(store, [digest]).get(digest)) is None:
        return None
    stored = StoredSurface.model_validate_json(body)
    named = {stored.tools, *(part for _, part in stored.prompt), *([stored.note] if stored.note else [])}
    pieces = records.surface_pieces(store, named)
    return Surface(
        model=stored.model,
        fallbacks=stored.fallbacks,
        skipped=stored.skipped,
        prompt=tuple(PromptPart(by=by, text=pieces[part].decode()) for by, part in stored.prompt),
        tools=_TOOLS.validate_json(pieces[stored.tools]),
        params=stored.params,
        output=stored.output,
        forgotten=stored.forgotten,
        note=pieces[stored.note].decode() if stored.note else "",
        able=stored.able,
    )


def latest_surface(store: ThreadStore) -> tuple[str, Surface] | None:
    """The surface of the latest model call, with its digest."""
    stored = records.latest_surface(store)
    if stored is None:
        return None
    if stored.startswith(b"{"):  # an older release stored it whole
        return hashlib.blake2b(stored, digest_size=8).hexdigest(), Surface.model_validate_json(stored)
    surface = put_together(store, digest := stored.decode())
    return None if surface is None else (digest, surface)


def _digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=12).hexdigest()


# The request.


def shaping(model: Model, name: str) -> tuple[Capability, ...]:
    """What a model can do that shapes a request. One that does not know itself is sent the images that there are."""
    if described(model) is None:
        return ("images",)
    known = capabilities(model, name)
    return tuple(each for each in SHAPING if each in known)


def tools_and_params(
    surface: Surface, able: Sequence[Capability], *, final: bool
) -> tuple[tuple[ToolSpec, ...], ModelParams]:
    """What a model of the chain is offered, and told beside the messages. `final`: no tool may be called any more."""
    tools, special = surface.tools, dict[str, object]()
    if final:
        special["tool_choice"] = "none"
    if surface.output is not None and "structured_output" in able:
        special["response_format"] = output.native(surface.output)
    elif surface.output is not None:
        hand_in = output.tool(surface.output, surface.tool_names)
        tools = (hand_in,) if final else (*tools, hand_in)
        special["tool_choice"] = "required" if final else surface.params.tool_choice
    return tools, surface.params.model_copy(update=special) if special else surface.params


def aside_tools_and_params(
    question: AsideQuestion, able: Sequence[Capability]
) -> tuple[tuple[ToolSpec, ...], ModelParams]:
    """The same for what is asked aside."""
    if question.output is None:
        return (), question.params
    if "structured_output" in able:
        return (), question.params.model_copy(update={"response_format": output.native(question.output)})
    return (output.tool(question.output, ()),), question.params.model_copy(update={"tool_choice": "required"})


def with_note(surface: Surface, shown: Sequence[Message]) -> Sequence[Message]:
    """The messages, behind what stands in the place of those that are left out."""
    return [Message(role="user", content=surface.note), *shown] if surface.note else shown


def not_yet_seen(messages: Sequence[Message], first: int, since: int) -> list[Message]:
    """The messages without the transient ones that a model has been shown; `first` is how many come before them."""
    return [message for i, message in enumerate(messages, first) if not message.transient or i >= since]


def fitting(messages: Sequence[Message], able: Sequence[Capability]) -> Sequence[Message]:
    """The messages for a model that may not take images: those of tools' results are left out. A run must not end
    because of what a tool returned, while a user who sends an image to such a model has to know."""
    if "images" in able or not has_images(messages):
        return messages
    return [without_images(message) if message.role == "tool" else message for message in messages]


def has_images(messages: Sequence[Message]) -> bool:
    return any(message.images for message in messages)


def without_images(message: Message) -> Message:
    """A tool's result for a model that takes no images: it reads that there are some."""
    if not message.images:
        return message
    note = f"({len(message.images)} image(s) came with this, which you cannot see.)"
    return message.model_copy(update={"images": (), "content": f"{message.content}\n{note}".lstrip("\n")})


def sent_messages(store: ThreadStore, surface: Surface, upto: int, since: int) -> Sequence[Message]:
    """The messages of a call, from the file."""
    first = surface.forgotten
    return with_note(surface, not_yet_seen(store.messages(after=first, upto=upto), first, since))
