"""The names in addresses."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

_ID = r"^[a-zA-Z0-9_-]{1,64}$"

AgencyId = Annotated[str, Path(pattern=_ID, description="An agency.", examples=["agc_85a5f873f4885cc0"])]
ThreadId = Annotated[str, Path(pattern=_ID, description="A thread.", examples=["thr_8a60953111bf4962a7f7"])]
KeyId = Annotated[str, Path(pattern=_ID, description="A key of the agency.", examples=["key_128d690c45580d43"])]
BlueprintName = Annotated[str, Path(pattern=_ID, description="A blueprint.", examples=["support"])]
