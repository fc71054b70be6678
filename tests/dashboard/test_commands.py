"""The commands that people use at a terminal, and scripts in pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from agency.client import Agency, Client, Thread
from agency.errors import AgencyError, InvalidInput, NotFound, Unavailable, WrongState
from dashboard.command import app
from tests.actors.shop import calls, noting, say, script
from tests.conftest import ROOT
from tests.dashboard.conftest import Serve, Server
