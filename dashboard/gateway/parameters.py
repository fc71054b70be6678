"""Parameters that many routes share: ids in paths, and the page of a list."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

_ID = r"^[a-zA-Z0-9_-]{1,64}$"

AgencyId = Annotated[str, Path(pattern=_ID, description="An agency.", examples=["agc_85a5f873f4885cc0"])]
ThreadId = Annotated[str, Path(pattern=_ID, description="A thread.", examples=["thr_8a60953111bf4962a7f7"])]
CallId = Annotated[str, Path(min_length=1, max_length=500, description="A tool call.", examples=["call_1"])]
KeyId = Annotated[str, Path(pattern=_ID, description="A key of the agency.", examples=["key_128d690c45580d43"])]
ScheduleId = Annotated[
    str,
    Path(min_length=1, max_length=200, description="A schedule: its id or name.", examples=["sch_0d4f4a3c5b8a91e2"]),
]
ProviderName = Annotated[
    str,
    Path(
        pattern=r"^[a-z][a-z0-9_-]{0,63}$",
        description="The word before the colon in a model's name.",
        examples=["openrouter"],
    ),
]
BlueprintName = Annotated[str, Path(pattern=_ID, description="A blueprint.", examples=["support"])]

After = Annotated[int, Query(ge=0, lt=2**63, description="Begin after this number; 0 is the beginning.")]
AfterName = Annotated[str, Query(max_length=64, description="`next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=1_000, description="The most that a page has.")]
