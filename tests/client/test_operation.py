"""An operation is described once, and both clients have it with the same name, parameters and docstring."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from agency.client import Agency, AsyncAgency, AsyncClient, AsyncThread, Client, Thread

PAIRS: list[tuple[type[Any], type[Any]]] = [(Client, AsyncClient), (Agency, AsyncAgency), (Thread, AsyncThread)]


def operations(handle: type[Any]) -> dict[str, Any]:
    return {name: method for name, method in inspect.getmembers(handle, inspect.isfunction) if not name.startswith("_")}


@pytest.mark.parametrize(("blocking", "awaited"), PAIRS)
def test_both_clients_have_the_same_operations(blocking: type[Any], awaited: type[Any]) -> None:
    ours, theirs = operations(blocking), operations(awaited)
    assert ours.keys() == theirs.keys()
    for name, method in ours.items():
        assert list(inspect.signature(method).parameters.values()) == list(
            inspect.signature(theirs[name]).parameters.values()
        )


@pytest.mark.parametrize("handle", [handle for pair in PAIRS for handle in pair])
def test_help_shows_an_operations_name_and_what_it_does(handle: type[Any]) -> None:
    for name, method in operations(handle).items():
        assert method.__name__ == name
        assert method.__doc__ or name == "close"


def test_an_operation_shows_its_own_parameters() -> None:
    with Client("http://127.0.0.1:1") as client:
        thread = client.agency("a").thread("t")
        assert list(inspect.signature(thread.deny).parameters) == ["reason", "idempotency_key"]
    assert list(inspect.signature(Thread.deny).parameters) == ["self", "reason", "idempotency_key"]
