"""What a conversation is made of. A message, once appended to a thread, never changes."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, StringConstraints, model_validator

from agency.wire import Wire

MESSAGE_CHARS = 1_000_000
"""The longest message that is accepted."""

IMAGE_BYTES = 5_000_000
"""The largest image that is accepted; providers refuse larger ones."""

IMAGES_MOST = 20
"""The most images that one message or one tool's result may have."""

Role = Literal["system", "user", "assistant", "tool"]
MediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]


class ToolCall(Wire):
    """A call as the model proposed it. `meta` is the provider's own replay data, kept and sent back verbatim."""

    id: str
    name: str
    args: JsonValue = {}
    meta: JsonValue = None


class Image(Wire):
    """A picture: its bytes in base64 (`data`, with their `media_type`), or an address where the provider gets it."""

    media_type: MediaType | None = None
    data: Annotated[str, Field(max_length=IMAGE_BYTES * 4 // 3 + 4)] | None = None
    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$", max_length=2_000)] | None = None

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """A picture in one of the four formats; `ValueError` if it is in none of them."""
        if (media_type := _media_type(content)) is None:
            raise ValueError("an image is a PNG, a JPEG, a GIF or a WebP, and this is none of them")
        return cls(media_type=media_type, data=base64.b64encode(content).decode())

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Self:
        if (self.data is None) == (self.url is None):
            raise ValueError("an image has either `data` or a `url`")
        if self.data is not None and self.media_type is None:
            raise ValueError("an image's `data` needs its `mediaType`")
        return self


def _media_type(content: bytes) -> MediaType | None:
    """The format of a picture, by how its bytes begin."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else None


class Message(Wire):
    """`origin` names the middleware that added it; a `transient` message is shown to the next model call only."""

    id: str = ""
    role: Role
    content: str = ""
    images: tuple[Image, ...] = ()
    """A user's, or those that a tool returned."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    origin: str | None = None
    transient: bool = False
    meta: JsonValue = None


def unpaired(messages: Sequence[Message]) -> str | None:
    """What is wrong with the calls and results of a piece of conversation, if anything is: the results of a message's
    calls follow it at once, one for each call. Ids may come again in a later message: some models count from one in
    every reply."""
    open_calls: set[str] = set()
    answered: set[str] = set()
    for message in messages:
        if message.role == "tool":
            call = str(message.tool_call_id)
            if call in answered:
                return f"call {call!r:.100} has two results"
            if call not in open_calls:
                return f"a result names call {call!r:.100}, which the assistant's message before it does not have"
            open_calls.remove(call)
            answered.add(call)
            continue
        if open_calls:
            break
        answered = set()
        open_calls = {call.id for call in message.tool_calls}
        if len(open_calls) < len(message.tool_calls):
            return "two calls of one message have the same id"
    return f"call {min(open_calls)!r:.100} has no result: it follows the message with the call" if open_calls else None


class Usage(Wire):
    """Tokens of one or more model calls. `cached_input` (read from the provider's cache) and `cache_write` (written to
    it) are parts of `input`, `reasoning` is one of `output`."""

    input: int = 0
    output: int = 0
    cached_input: int = 0
    cache_write: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cached_input=self.cached_input + other.cached_input,
            cache_write=self.cache_write + other.cache_write,
            reasoning=self.reasoning + other.reasoning,
        )
