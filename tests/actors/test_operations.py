"""Every line of a handle is an operation that the other side knows."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from actors.agency.agency import AGENCY_OPERATIONS
from actors.agency.calls import AgencyCalls
from actors.cluster.agency_handle import AgencyHandle
from actors.cluster.thread_handle import ThreadHandle
from actors.host.system_agent import OWN_OPERATIONS, THREAD_OPERATIONS


def remote_methods(handle: type) -> set[str]:
    """The operations that a handle calls: `remote` keeps the method that it is of."""
    return {method.__wrapped__.__name__ for method in vars(handle).values() if hasattr(method, "__wrapped__")}


@pytest.mark.parametrize(
    ("handle", "known"),
    [
        (ThreadHandle, [THREAD_OPERATIONS, OWN_OPERATIONS]),
        (AgencyHandle, AGENCY_OPERATIONS.values()),
        (AgencyCalls, AGENCY_OPERATIONS.values()),
    ],
)
def test_a_handle_calls_operations_that_there_are(handle: type, known: Iterable[dict[str, object]]) -> None:
    called = remote_methods(handle)
    assert len(called) > 5
    assert called <= {name for operations in known for name in operations}
