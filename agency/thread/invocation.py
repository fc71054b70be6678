"""What a caller sends to a thread: messages, and how they are to be taken.

A message is checked once, where it enters: `checked_invocation` makes an `Invocation` from what a caller gives, and
refuses what a thread does not take. From there the value travels as it is, between processes too, and the thread
(`Thread.accept`) trusts it. So an `Invocation` must never be built from unchecked input in any other way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import StringConstraints, TypeAdapter
from typing_extensions import Unpack

from agency.define.options import NO_OPTIONS, RunOptionFields, RunOptions, as_options
from agency.define.output import OutputType, as_schema
from agency.errors import InvalidInput, TooLarge
from agency.idempotency import request_digest
from agency.json_schema import Schema
from agency.messages import MESSAGE_CHARS, Message, ToolCall, unpaired
from agency.store.draft import When
from agency.thread.inbox import RunTerms
from agency.turn.modes import not_run
from agency.turn.state import Limits
from agency.validation import check_image, valid
from agency.wire import sayable, sayable_text

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

    @property
    def digest(self) -> str:
        """Of what is asked for; two invocations with the same key and another digest are two requests."""
        return request_digest(
            messages=[message.model_dump(mode="json", exclude_defaults=True) for message in self.messages],
            limits=None if self.limits is None else self.limits.model_dump(mode="json", exclude_defaults=True),
            files=self.files,
            output_schema=self.output_schema,
            when=None if self.when == "next_step" else self.when,
            options=self.options.model_dump(mode="json", exclude_defaults=True),
        )


def checked_invocation(
    message: str | Message | Sequence[Message] = (),
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
    messages = checked_messages(message, longest=longest)
    if not messages and when in ("next_run", "now"):
        raise InvalidInput(f"`when: {when}` says what becomes of a message, and there is none")
    return Invocation(
        messages=messages,
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
    """The messages as a thread takes them from outside: each of them, the calls with their results, and calls of the
    last message that have none as calls that were not run."""
    if isinstance(message, str):
        message = Message(role="user", content=message)
    if not isinstance(message, Message | Iterable):
        raise InvalidInput(f"a message is a text, a Message or a list of those, not {type(message).__name__}")
    messages = valid(_MESSAGES, (message,) if isinstance(message, Message) else message, "message")
    for one in messages:
        _check_message(one, longest)
    messages = tuple(one for one in messages if not one.transient)  # these were for one model call, which has been
    if messages and messages[-1].tool_calls:
        messages += tuple(not_run(call) for call in messages[-1].tool_calls)
    if (problem := unpaired(messages)) is not None:
        raise InvalidInput(problem)
    return tuple(_as_ours(one) for one in messages)


def _as_ours(message: Message) -> Message:
    """A message without what is ours to give: its id, its origin, and what a provider has kept with it."""
    status = _status(message) if message.role == "tool" else None
    return Message(
        role=message.role,
        content=sayable_text(message.content),
        images=message.images,
        tool_calls=tuple(
            ToolCall(id=sayable_text(call.id), name=sayable_text(call.name), args=sayable(call.args))
            for call in message.tool_calls
        ),
        tool_call_id=None if message.tool_call_id is None else sayable_text(message.tool_call_id),
        meta=None if status is None else {"status": status},
    )


def _status(message: Message) -> str | None:
    """How a call ended that was no success, as our own messages say it."""
    match message.meta:
        case {"status": "failure" | "canceled" as status}:
            return str(status)
        case _:
            return None


def _check_message(message: Message, longest: int) -> None:
    if message.tool_calls and message.role != "assistant":
        raise InvalidInput(f"tool calls belong to an assistant's message, not to one of role {message.role}")
    if (message.tool_call_id is not None) != (message.role == "tool"):
        raise InvalidInput(
            "a message of role tool, and no other, has a `toolCallId`: the call that it is the result of"
        )
    if any(not call.id or not call.name for call in message.tool_calls):
        raise InvalidInput("a tool call has an `id` and a `name`")
    if message.images and message.role not in ("user", "tool"):
        raise InvalidInput("images belong to a user's message, or to the result of a tool")
    if message.role in ("user", "system") and not (message.content.strip() or message.images):
        raise InvalidInput("the message is empty")
    for image in message.images:
        check_image(image)
    if len(message.content) > longest:
        raise TooLarge(f"the message has {len(message.content)} characters; {longest} are accepted")
