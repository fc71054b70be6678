"""Tests of the gateway, over HTTP."""

from __future__ import annotations

from tests.support.gateway_fixtures import agency, http
from tests.support.programs import program

__all__ = ["agency", "http", "program"]
