"""What the scripted model server says: replies and faults, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Call(Strict):
    """A call that the model makes. Arguments that are text are sent as they are: nonsense too."""

    name: str
    args: dict[str, JsonValue] | str = {}
    id: str | None = None
    extra: JsonValue = None
    """What Gemini hangs on a call."""


class Counts(Strict):
    input: int = 10
    output: int = 5
    cached: int = 0
    written: int = 0
    reasoning: int = 0


class Reply(Strict):
    """One reply, or one fault.

    `delay` is waited before each piece of text, in seconds. `then` says what follows the pieces and calls: the proper
    end; a connection that is cut; a stream that ends without saying so; silence. One that is to `hang` says nothing at
    all. With `status`, there is no stream but an error; with `error` alone, the error comes within the stream. `raw` is
    sent as it is, in place of the end: nonsense too. `unnumbered` calls all have the number 0, as some servers have it
    that speak OpenAI's API. `thinking` is what Anthropic's models think before they speak, `redacted` what they keep to
    themselves; `deltas` are fields of whichever kind that OpenAI's chunks begin with, one chunk for each.
    """

    text: tuple[str, ...] = ()
    delay: float = 0.0
    thinking: str | None = None
    redacted: str | None = None
    deltas: tuple[dict[str, JsonValue], ...] = ()
    calls: tuple[Call, ...] = ()
    unnumbered: bool = False
    usage: Counts | None = Counts()
    stop: str | None = None
    then: Literal["finish", "cut", "end", "silence", "hang"] = "finish"
    raw: str | None = None
    status: int = 200
    headers: Mapping[str, str] = {}
    error: dict[str, JsonValue] | None = None
    whole: JsonValue = None
    """The whole body of an error, as no API has it."""


Step = Reply | tuple[Reply, ...]
Script = Sequence[Reply] | Mapping[str, Sequence[Step]]
SCRIPT: TypeAdapter[list[Reply] | dict[str, list[Step]]] = TypeAdapter(list[Reply] | dict[str, list[Step]])
