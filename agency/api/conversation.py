"""What clients hand to a thread: messages, also those of a conversation that took place elsewhere, and files."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from agency.api.body import Body
from agency.messages import IMAGES_MOST, MESSAGE_CHARS, Image, Message, Role

MESSAGES_MOST = 10_000
"""In one request. A conversation that is imported comes in one."""


class ChatMessage(Body, Message):
    """A message: text, images, or both. Users' messages and results of tools have images.

    The roles `assistant`, with its `toolCalls`, and `tool`, with the `toolCallId` that it is the result of, are for a
    conversation that took place elsewhere. A message from a thread's state can be sent as it is.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"role": "user", "content": "Where is order 7?"},
                {"content": "What is this?", "images": [{"url": "https://example.org/cake.png"}]},
                {"role": "assistant", "toolCalls": [{"id": "call_1", "name": "find_order", "args": {"number": 7}}]},
                {"role": "tool", "toolCallId": "call_1", "content": "on its way"},
            ],
        }
    )

    role: Role = "user"
    content: Annotated[str, Field(max_length=MESSAGE_CHARS)] = ""
    images: Annotated[tuple[Image, ...], Field(max_length=IMAGES_MOST)] = ()

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.role in ("user", "system") and not (self.content or self.images):
            raise ValueError("a message has `content` or `images`")
        return self


Messages = Annotated[tuple[ChatMessage, ...], Field(max_length=MESSAGES_MOST)]
FirstMessages = Annotated[
    Messages, Field(description="The first run begins with these at once. Without any, the thread waits for a message.")
]


def as_messages(given: tuple[ChatMessage, ...]) -> tuple[Message, ...]:
    """The messages as threads have them. What of them is kept is decided where a thread takes them in."""
    return tuple(Message(**dict(each)) for each in given)


def absolute(path: str) -> str:
    """The path of a file in an agent's filesystem, in which every path begins with "/"."""
    return path if path.startswith("/") else f"/{path}"


def _absolute(files: dict[str, str]) -> dict[str, str]:
    named = {absolute(path): text for path, text in files.items()}
    if len(named) < len(files):
        raise ValueError("two of the paths name the same file: one with a leading slash, one without")
    return named


Files = Annotated[
    dict[str, str],
    AfterValidator(_absolute),
    Field(description="Text files by path, put into the agent's filesystem. A path without a leading slash gets one."),
]
