"""What people send to try a run again, and to change what an agent keeps."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from agency.api.body import Body, IdempotencyKey, example
from agency.turn.state import Limits


class RetryBody(Body):
    """Try the latest run again, which has failed."""

    model_config = example(limits={"turns": 20})

    limits: Annotated[Limits | None, Field(description="In the place of those of the run that failed.")] = None
    idempotency_key: IdempotencyKey = None


class StateEdit(Body):
    """Changes of what an agent keeps, by the parts of its state."""

    model_config = example(
        state={"todos": [{"content": "Ask the baker", "status": "pending"}], "files": {"/old.md": None}}, seq=42
    )

    state: Annotated[
        dict[str, JsonValue],
        Field(
            min_length=1,
            max_length=20,
            description="`todos`: the new list. `files`: by path the new text, or null to delete the file. Middleware "
            "of your own may have more.",
        ),
    ]
    seq: Annotated[
        int | None,
        Field(ge=0, lt=2**63, description="The latest event that you know: refuse if anything happened since."),
    ] = None
