"""A todo list that the agent replaces as a whole, kept with the thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import JsonValue

from agency.testing import call
from middleware import planning

if TYPE_CHECKING:
    from tests.support.call_runner import MakeRunner, OpenRunner


@pytest.fixture
def runner(make_runner: MakeRunner) -> OpenRunner:
    return make_runner(planning)


def todo(content: str, status: str = "pending") -> JsonValue:
    return {"content": content, "status": status}


async def test_a_thread_begins_without_todos(runner: OpenRunner) -> None:
    async with runner() as clerk:
        assert await clerk.more() == {"todos": []}


async def test_write_todos_keeps_the_list_in_its_order_and_says_how_long_it_is(runner: OpenRunner) -> None:
    todos: JsonValue = [todo("plan", "completed"), todo("build", "in_progress"), todo("ship")]
    async with runner() as clerk:
        assert await clerk.do(call("write_todos", todos=todos)) == ["Updated todo list (3 items)."]
        assert await clerk.more() == {"todos": todos}


async def test_a_new_list_replaces_the_one_before(runner: OpenRunner) -> None:
    async with runner() as clerk:
        first: JsonValue = [todo("a"), todo("b"), todo("c")]
        second: JsonValue = [todo("b", "completed")]
        await clerk.do(call("write_todos", todos=first), call("write_todos", todos=second))
        assert await clerk.more() == {"todos": second}


async def test_an_empty_list_clears_it(runner: OpenRunner) -> None:
    async with runner() as clerk:
        results = await clerk.do(call("write_todos", todos=[todo("a")]), call("write_todos", todos=[]))
        assert results[1] == "Updated todo list (0 items)."
        assert await clerk.more() == {"todos": []}


async def test_of_several_lists_in_one_batch_the_last_one_stands(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.do([call("write_todos", todos=[todo("a"), todo("b")]), call("write_todos", todos=[todo("c")])])
        assert await clerk.more() == {"todos": [todo("c")]}


@pytest.mark.parametrize("status", ["done", "", "PENDING", None, 3, ["completed"]])
async def test_a_status_that_is_not_known_counts_as_pending(status: JsonValue, runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.do(call("write_todos", todos=[{"content": "a", "status": status}]))
        assert await clerk.more() == {"todos": [todo("a", "pending")]}


async def test_a_todo_without_a_status_is_pending(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.do(call("write_todos", todos=[{"content": "a"}]))
        assert await clerk.more() == {"todos": [todo("a", "pending")]}


async def test_content_is_cut_at_2000_characters(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.do(call("write_todos", todos=[todo("x" * 2_001), todo("y" * 2_000)]))
        assert await clerk.more() == {"todos": [todo("x" * 2_000), todo("y" * 2_000)]}


@pytest.mark.parametrize("todos", [None, "buy milk", [{"status": "pending"}], [{"content": 5}], ["buy milk"]])
async def test_a_list_that_cannot_be_read_is_refused_and_the_old_one_stays(
    todos: JsonValue, runner: OpenRunner
) -> None:
    async with runner() as clerk:
        (_, refusal) = await clerk.do(call("write_todos", todos=[todo("keep")]), call("write_todos", todos=todos))
        assert refusal.startswith("Error: invalid_request: wrong arguments for write_todos: todos")
        assert await clerk.more() == {"todos": [todo("keep")]}


async def test_the_list_outlives_the_process(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.do(call("write_todos", todos=[todo("a", "in_progress")]))
    async with runner() as clerk:
        assert await clerk.more() == {"todos": [todo("a", "in_progress")]}


async def test_the_model_is_told_how_and_sees_the_three_statuses(runner: OpenRunner) -> None:
    async with runner() as clerk:
        await clerk.do()
        request = clerk.last_request
    assert request.system.startswith("You are a clerk.\n\n")
    assert "`write_todos`" in request.system
    (spec,) = request.tools
    assert spec.name == "write_todos"
    schema: Any = spec.parameters
    assert schema["$defs"]["Todo"]["properties"]["status"]["enum"] == ["pending", "in_progress", "completed"]
    assert schema["$defs"]["Todo"]["required"] == ["content"]
    assert schema["properties"]["todos"]["description"] == "The whole new list, in order."
