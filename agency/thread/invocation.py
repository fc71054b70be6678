"""What a caller sends to a thread: messages, and how they are to be taken.

A message is checked once, where it enters: `checked_invocation` makes an `Invocation` from what a caller gives, and
refuses what a thread does not take. From there the value travels as it is, between processes too, and the thread
(`Thread.accept`) trusts it. So an `Invocation` must never be built from unchecked input in any other way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import StringConstraints, TypeAdapter
from typing_extensions import Unpack

from agency.define.options import NO_OPTIONS, RunOptionFields, RunOptions, as_options
from agency.define.output import OutputType, as_schema
from agency.errors import InvalidInput, TooLarge
from agency.json_schema import Schema
from agency.messages import MESSAGE_CHARS, Message
from agency.store.draft import When
from agency.thread.inbox import RunTerms
from agency.turn.state import Limits
from agency.validation import check_image, valid
from agency.wire import sayable_text

_KEY = TypeAdapter(Annotated[str, StringConstraints(strict=True, min_length=1, max_length=256)])
_MESSAGES = TypeAdapter(tuple[Message, ...])
_WHEN: TypeAdapter[When] = TypeAdapter(When)
_LIMITS = TypeAdapter(Limits)
_FILES: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


@dataclass(frozen=True, slots=True)
class Invocation:
    """Checked input for one thread. It can be pickled, and sent as often as need be: the key makes it count once."""

    messages: tuple[Message, ...]
    idempotency_key: str | None = None
    limits: Limits | None = None
    """In the place of the blueprint's, for a run that this starts."""
    files: dict[str, str] = field(default_factory=dict)
    """Text by path; the agent has them when it reads the messages."""
    output_schema: Schema | None = None
    """In the place of the blueprint's, for a run that this starts."""
    when: When = "next_step"
    options: RunOptions = NO_OPTIONS
    """In the place of the blueprint's, for a run that this starts."""
    handed_down: bool = False
    """The options are those of a parent's run: what they do not mean here, they need not mean."""

    @property
    def terms(self) -> RunTerms:
        """Of a run that this starts."""
        return RunTerms(limits=self.limits, output=self.output_schema, options=self.options)


def checked_invocation(
    message: str | Message | Sequence[Message],
    *,
    idempotency_key: str | None = None,
    limits: Limits | None = None,
    files: Mapping[str, str] | None = None,
    output_schema: OutputType | None = None,
    when: When = "next_step",
    longest: int = MESSAGE_CHARS,
    **options: Unpack[RunOptionFields],
) -> Invocation:
    """What a caller gives, as a thread takes it; `InvalidInput` or `TooLarge` says what is wrong with it.

    `longest` is the most characters that a message may have.
    """
    return Invocation(
        messages=checked_messages(message, longest=longest),
        output_schema=None if output_schema is None else as_schema(output_schema),
        when=valid(_WHEN, when, "`when`"),
        files=valid(_FILES, dict(files), "files") if files else {},
        limits=None if limits is None else valid(_LIMITS, limits, "limits"),
        idempotency_key=checked_key(idempotency_key),
        options=as_options(options),
    )


def checked_key(idempotency_key: str | None) -> str | None:
    return None if idempotency_key is None else valid(_KEY, idempotency_key, "idempotency key")


def checked_messages(
    message: str | Message | Sequence[Message], *, longest: int = MESSAGE_CHARS
) -> tuple[Message, ...]:
    """The messages as a thread takes them from outside."""
    if isinstance(message, str):
        message = Message(role="user", content=message)
    messages = valid(_MESSAGES, (message,) if isinstance(message, Message) else message, "message")
    if not messages:
        raise InvalidInput("there is no message")
    for one in messages:
        _check_message(one, longest)
    # Ids, origin and the like are ours to give.
    return tuple(Message(role=one.role, content=sayable_text(one.content), images=one.images) for one in messages)


def _check_message(message: Message, longest: int) -> None:
    if message.role not in ("user", "system") or message.tool_calls or message.tool_call_id:
        raise InvalidInput(f"a message from outside is a user's or the system's, not {message.role}")
    if message.images and message.role != "user":
        raise InvalidInput("images belong to a user's message")
    if not (message.content.strip() or message.images):
        raise InvalidInput("the message is empty")
    for image in message.images:
        check_image(image)
    if len(message.content) > longest:
        raise TooLarge(f"the message has {len(message.content)} characters; {longest} are accepted")
