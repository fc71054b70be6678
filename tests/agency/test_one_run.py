"""`system.run`: one run in one call, its result as what was asked for, and errors that say what happened instead."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import assert_type

import pytest
from pydantic import BaseModel, JsonValue, field_validator

from agency import (
    AgentSystem,
    Approve,
    DefinitionError,
    Finish,
    InvalidInput,
    ModelError,
    ModelRequest,
    RunFailed,
    RunResult,
    RunUnfinished,
    StoreError,
    WrongState,
    open_thread,
    tool,
)
from agency.testing import Script, ScriptedModel, call
from middleware import hitl

NOTES = '{"title": "Release 1.1", "changes": ["faster"]}'


class Notes(BaseModel):
    title: str
    changes: list[str]

    @field_validator("title")
    @classmethod
    def _short(cls, title: str) -> str:
        if len(title) > 20:
            raise ValueError("a title has at most 20 characters")
        return title


@tool(risk="high")
async def publish(text: str) -> str:
    """Publish."""
    return f"published {text}"


@tool
async def count() -> Finish:
    """Count."""
    return Finish({"n": 2})


def system_of(script: Script) -> AgentSystem:
    return (
        AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)})
        .use(hitl)
        .add_tool(publish, tags=["hitl"])
        .add_tool(count)
        .add_agent(name="editor", description="Writes.", prompt="You write.")
        .add_agent(name="publisher", description="Publishes.", prompt="You publish.", tags=["hitl"])
    )


def test_a_result_is_an_instance_of_what_was_asked_for_and_typed_as_that() -> None:
    made = system_of([NOTES]).run_sync("editor", "Release 1.1", output=Notes)

    assert_type(made, RunResult[Notes])
    assert made.output == Notes(title="Release 1.1", changes=["faster"])
    assert made.run.status == "completed"
    assert made.thread.run.run_id == made.run.run_id
    assert [message.role for message in made.thread.messages] == ["user", "assistant"]


async def test_a_run_can_be_awaited_and_is_text_unless_something_else_was_asked_for() -> None:
    made = await system_of(["Hello."]).run("editor", "Say hello.")

    assert_type(made, RunResult[str])
    assert made.output == "Hello."


async def test_a_model_is_told_who_asks() -> None:
    asked: list[ModelRequest] = []

    def script(request: ModelRequest) -> str:
        asked.append(request)
        return "Hello."

    made = await system_of(script).run("editor", "Say hello.")

    (request,) = asked
    assert (request.agent, request.thread_id, request.run_id) == ("editor", made.thread.thread.id, made.run.run_id)


async def test_a_value_by_a_json_schema_is_plain_json() -> None:
    made = await system_of(['{"n": 1}']).run("editor", "Count.", output={"type": "object", "required": ["n"]})

    assert_type(made, RunResult[JsonValue])
    assert made.output == {"n": 1}


async def test_a_value_that_a_tool_hands_in_is_text_where_text_is_asked_for() -> None:
    made = await system_of([call("count")]).run("editor", "Count.")

    assert made.output == '{"n":2}'
    assert made.run.data == {"n": 2}


async def test_what_the_model_checks_beyond_its_schema_counts_too_and_is_told_to_the_model() -> None:
    long = '{"title": "A release of which there is much to say", "changes": []}'
    made = await system_of([long, NOTES]).run("editor", "Release 1.1", output=Notes)

    assert made.output.title == "Release 1.1"
    assert "a title has at most 20 characters" in made.thread.messages[2].content


async def test_a_run_that_fails_raises_with_its_code_and_reason() -> None:
    refused = ModelError("no such key", model_code="ERR_AUTH")
    with pytest.raises(RunFailed) as raised:
        await system_of([refused]).run("editor", "Release 1.1")

    assert raised.value.run_code == "ERR_AUTH"
    assert "no such key" in raised.value.reason
    assert str(raised.value).startswith("ERR_AUTH: ")


async def test_a_run_that_waits_for_a_person_says_for_what_and_goes_on_from_its_file(tmp_path: Path) -> None:
    system = system_of([call("publish", call_id="call_p", text="1.1"), "Done."])
    with pytest.raises(RunUnfinished, match=r"decide on publish \(call_p\)") as raised:
        await system.run("publisher", "Release 1.1", file=tmp_path / "notes.db")

    assert raised.value.reason == "hitl"
    assert raised.value.waits == ("call_p",)
    async with open_thread(system, tmp_path / "notes.db") as thread:
        await thread.decide({"call_p": Approve()})
        assert (await thread.wait(30)).data == "Done."


async def test_a_file_goes_on_with_its_conversation_and_a_folder_gets_new_threads(tmp_path: Path) -> None:
    system = system_of(["One.", "Two."])
    await system.run("editor", "Say one.", file=tmp_path / "a.db")
    again = await system.run("editor", "Say two.", file=tmp_path / "a.db")
    for _ in range(2):
        await system.run("editor", "Say one.", folder=tmp_path / "threads")

    assert again.output == "Two."
    assert len(again.thread.messages) == 4
    assert len(list((tmp_path / "threads").glob("*.db"))) == 2


async def test_without_a_file_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    await system_of(["Hello."]).run("editor", "Say hello.")

    assert list(tmp_path.iterdir()) == []


async def test_inside_an_event_loop_it_says_to_await() -> None:
    with pytest.raises(WrongState, match=r"await system\.run"):
        system_of(["Hello."]).run_sync("editor", "Say hello.")


async def test_a_file_and_a_folder_are_refused_together(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not both"):
        await system_of([]).run("editor", "Hello.", file=tmp_path / "a.db", folder=tmp_path)


async def test_waiting_with_an_output_gives_an_instance_or_says_why_there_is_none(tmp_path: Path) -> None:
    system = system_of([NOTES, "just words"])
    async with open_thread(system, tmp_path / "t.db", agent="editor") as thread:
        await thread.invoke("Release 1.1", output_schema=Notes)
        notes = await thread.wait(30, output=Notes)
        assert_type(notes, Notes)
        assert notes.changes == ["faster"]

        await thread.invoke("And now in words.")
        with pytest.raises(RunFailed, match="the result is no Notes"):
            await thread.wait(30, output=Notes)


async def test_a_run_that_takes_too_long_is_not_finished() -> None:
    async def for_ever(request: ModelRequest) -> str:
        await asyncio.Event().wait()
        return "never"

    with pytest.raises(RunUnfinished, match=r"still at work.*with a `file`, it can be opened again") as raised:
        await system_of(for_ever).run("editor", "Hello.", timeout=0.01)

    assert raised.value.reason == "running"


async def test_what_cannot_be_run_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no folder")
    system = system_of([])
    with pytest.raises(StoreError, match=r"cannot make the folder .*notes\.txt: File exists"):
        await system.run("editor", "Hello.", folder=tmp_path / "notes.txt")
    with pytest.raises(InvalidInput, match="a message is a text, a Message or a list of those, not NoneType"):
        await system.run("editor", None)  # type: ignore[call-overload]
    with pytest.raises(DefinitionError, match="must read provider:model"):
        AgentSystem(None)  # type: ignore[arg-type]
    async with open_thread(system, tmp_path / "t.db", agent="editor") as thread:
        with pytest.raises(InvalidInput, match="output is a pydantic model, not <class 'int'>"):
            await thread.wait(30, output=int)  # type: ignore[type-var]
