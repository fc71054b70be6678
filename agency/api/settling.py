"""The body of a request that settles a call which waits for the outside."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from agency.api.body import Body

_TOKEN = "agc_85a5f873f4885cc0.thr_8a60953111bf4962a7f7.Kq…"


class SettleBody(Body):
    """The call's result, or the error that it fails with; with neither, an empty result."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"token": _TOKEN, "result": {"paid": 5}},
                {"token": _TOKEN, "error": "the card was refused"},
            ]
        }
    )

    token: Annotated[str, Field(max_length=300, description="The token that the call's tool has handed out.")]
    result: Annotated[JsonValue, Field(description="What the model reads as the call's result.")] = None
    error: Annotated[str | None, Field(max_length=10_000, description="Why the call fails.")] = None

    @model_validator(mode="after")
    def _not_both(self) -> Self:
        if self.result is not None and self.error is not None:
            raise ValueError("a call is settled with a result or with an error, not with both")
        return self
