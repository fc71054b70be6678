"""The one base model for whatever is stored or sent: frozen, strict about unknown fields, camelCase outside."""

from __future__ import annotations

import time

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Wire(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True
    )


def now_ms() -> int:
    """Milliseconds since 1970: the one clock that stored times come from."""
    return time.time_ns() // 1_000_000
