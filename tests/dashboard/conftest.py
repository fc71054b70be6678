"""Tests of the gateway, over HTTP."""

from __future__ import annotations

from tests.support.gateway_fixtures import agency, guarded, http, owner
from tests.support.programs import program

__all__ = ["agency", "guarded", "http", "owner", "program"]
