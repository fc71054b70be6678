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


class Counts(Strict):
    input: int = 10
    output: int = 5
    cached: int = 0
    reasoning: int = 0


class Reply(Strict):
    """One reply, or one fault.

    `delay` is waited before each piece of text, in seconds. `then` says what follows the pieces and calls: the proper
    end; a connection that is cut; a stream that ends without saying so; silence. With `status`, there is no stream but
    an error; with `error` alone, the error comes within the stream. `unnumbered` calls all have the number 0, as some
    servers have it that speak OpenAI's API.
    """

    text: tuple[str, ...] = ()
    delay: float = 0.0
    thinking: str | None = None
    calls: tuple[Call, ...] = ()
    unnumbered: bool = False
    usage: Counts | None = Counts()
    stop: str | None = None
    then: Literal["finish", "cut", "end", "silence"] = "finish"
    status: int = 200
    headers: Mapping[str, str] = {}
    error: dict[str, JsonValue] | None = None


Step = Reply | tuple[Reply, ...]
Script = Sequence[Reply] | Mapping[str, Sequence[Step]]
SCRIPT: TypeAdapter[list[Reply] | dict[str, list[Step]]] = TypeAdapter(list[Reply] | dict[str, list[Step]])
