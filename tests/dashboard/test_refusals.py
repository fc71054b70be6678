"""What a refusal tells callers, whatever was raised: nothing of the machine, and when to try again."""

from __future__ import annotations

import errno
import json
import sqlite3
from typing import Any

import pytest

from actors.answers import Refusal, answer, unwrap
from agency.client.exchange import Answer, refusal
from agency.errors import (
    AgencyError,
    Damaged,
    InvalidInput,
    NewerStore,
    NotFound,
    StorageFull,
    SystemBroken,
    Unavailable,
)
from dashboard.gateway.problems import as_problem
from tests.support.refusals import INTERNALS

DEAD = "hosts die while they start: actor_id=0102, pid=4711, namespace=shared, class_name=Host, /tmp/ray/session"


def of_sqlite(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("cannot use /srv/data/agency.db")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (Unavailable(DEAD).telling("hosts are starting again"), 503, "ERR_UNAVAILABLE"),
        (Unavailable("the data folder /srv/data cannot be used"), 503, "ERR_UNAVAILABLE"),
        (SystemBroken(f"cannot load shop: {DEAD}").telling("the server cannot load its agents"), 503, "ERR_SYSTEM"),
        (StorageFull("cannot write /srv/data/agency.db"), 507, "ERR_STORAGE_FULL"),
        (Damaged("/srv/data/agency.db is damaged"), 503, "ERR_DAMAGED"),
        (NewerStore("/srv/data/agency.db has version 9"), 503, "ERR_NEWER_STORE"),
        (NotFound("there is no thread at /srv/data/a.db").telling("there is no such thread"), 404, "ERR_NOT_FOUND"),
        (of_sqlite(sqlite3.SQLITE_FULL), 507, "ERR_STORAGE_FULL"),
        (of_sqlite(sqlite3.SQLITE_CORRUPT), 503, "ERR_DAMAGED"),
        (of_sqlite(sqlite3.SQLITE_BUSY), 503, "ERR_STORE"),
        (OSError(errno.ENOSPC, "No space left on device", "/srv/data/x"), 507, "ERR_STORAGE_FULL"),
        (OSError(errno.EACCES, "Permission denied", "/srv/data/x"), 500, "ERR_INTERNAL"),
        (ValueError(DEAD), 500, "ERR_INTERNAL"),
    ],
)
async def test_whatever_was_raised_in_whatever_process_callers_are_told_nothing_of_the_machine(
    raised: Exception, status: int, code: str
) -> None:
    async def fail() -> None:
        raise raised

    refused: Any = await answer(fail())
    assert isinstance(refused, Refusal)
    with pytest.raises(AgencyError) as crossed:
        unwrap(refused)
    for error in (raised, crossed.value):
        told = as_problem(error)
        body = json.loads(bytes(told.body))
        assert (told.status_code, body["code"]) == (status, code)
        assert not INTERNALS.search(body["detail"]) and "/srv" not in body["detail"], body["detail"]
        assert (status not in (503, 507)) or int(told.headers["retry-after"]) > 0
        typed = refusal(Answer(told.status_code, told.headers, bytes(told.body)), "http://there")
        assert typed.code == code and str(typed) == body["detail"]


def test_a_refusal_repeats_little_of_what_was_sent() -> None:
    body = json.loads(bytes(as_problem(InvalidInput(f"there is no model {'x' * 1_000_000}")).body))
    assert len(body["detail"]) == 2_001 and body["detail"].endswith("…")


def test_a_proxy_without_a_problem_is_told_by_its_status() -> None:
    assert isinstance(refusal(Answer(507, {}, b"full"), "http://there"), StorageFull)
