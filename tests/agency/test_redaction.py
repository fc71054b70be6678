"""People are shown calls without secrets; what runs, and what is stored of the conversation, is not touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, JsonValue, SecretStr

from agency import (
    AgentSystem,
    CallTool,
    CodeResult,
    Edit,
    EventType,
    InvalidInput,
    LocalRuntime,
    Tool,
    ToolCall,
    tool,
)
from agency.redaction import HIDDEN, SHOWN_CHARS, restored, shown
from agency.testing import Line, ScriptedModel
from middleware import hitl
from tests.support.thread_files import messages_of

KEY = "sk-live_abcdefgh12345678"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"


# What is shown.


@pytest.mark.parametrize(
    "name",
    [
        *("password", "userPassword", "user_passwd", "passphrase", "secret", "clientSecret", "token", "access_token"),
        *("tokens", "apiKey", "api_key", "API-KEY", "authorization", "credential", "credentials", "privateKey"),
    ],
)
def test_text_under_a_secrets_name_is_hidden(name: str) -> None:
    assert shown({name: "hunter2", "n": 1}) == {name: HIDDEN, "n": 1}
    assert shown({"deep": [{name: ["hunter2", {"value": "hunter2"}]}]}) == {
        "deep": [{name: [HIDDEN, {"value": HIDDEN}]}]
    }


@pytest.mark.parametrize("name", ["tokenizer", "secretary", "max_tokens_to_use", "passenger", "keyboard", "bypass"])
def test_other_names_are_not(name: str) -> None:
    assert shown({name: "hunter2"}) == {name: "hunter2"}


def test_numbers_under_such_names_are_shown_because_they_count() -> None:
    assert shown({"max_tokens": 500, "token": None}) == {"max_tokens": 500, "token": None}


@pytest.mark.parametrize("text", [KEY, f"Bearer {KEY}", "Bearer abcdefgh12345678", JWT])
def test_text_that_looks_like_a_key_is_hidden_wherever_it_stands(text: str) -> None:
    found = str(shown({"note": [f"use {text} please"]}))
    assert HIDDEN in found and text.split()[-1] not in found and "please" in found


def test_long_text_is_cut_and_says_so() -> None:
    (text,) = dict(shown({"body": "x" * (SHOWN_CHARS + 7)})).values()  # type: ignore[arg-type]  # an object
    assert text == "x" * SHOWN_CHARS + "… (7 more characters)"


# What comes back from somebody who edits what they were shown.


def test_what_was_left_as_shown_keeps_its_real_value() -> None:
    original: JsonValue = {"to": "a", "password": "p", "deep": {"token": "t", "n": 1}, "body": "x" * 5_000}
    edited: Any = shown(original)
    assert restored(edited, original) == original
    changed = {**edited, "to": "b", "deep": {**edited["deep"], "n": 2}}
    expected = {"to": "b", "password": "p", "deep": {"token": "t", "n": 2}, "body": "x" * 5_000}
    assert restored(changed, original) == expected


def test_a_new_value_in_the_place_of_a_hidden_one_is_taken() -> None:
    assert restored({"password": "new"}, {"password": "old"}) == {"password": "new"}
    assert restored({"key": "plain"}, {"key": "old"}, hidden=["key"]) == {"key": "plain"}


def test_hidden_arguments_of_any_type_come_back() -> None:
    original: JsonValue = {"pin": 1234, "keys": ["a", "b"], "n": 1}
    seen: Any = shown(original, hidden=["pin", "keys"])
    assert seen == {"pin": HIDDEN, "keys": HIDDEN, "n": 1}
    assert restored({**seen, "n": 2}, original, hidden=["pin", "keys"]) == {"pin": 1234, "keys": ["a", "b"], "n": 2}


def test_an_item_taken_out_of_a_list_leaves_the_others_their_values() -> None:
    original: JsonValue = {"users": [{"name": n, "password": f"of {n}"} for n in "abc"]}
    seen: Any = shown(original)
    del seen["users"][1]
    assert restored(seen, original) == {"users": [{"name": n, "password": f"of {n}"} for n in "ac"]}


def test_items_that_change_places_take_their_values_along() -> None:
    original: JsonValue = {"users": [{"name": n, "password": f"of {n}"} for n in "abc"]}
    seen: Any = shown(original)
    seen["users"] = [seen["users"][2], {**seen["users"][1], "name": "B"}, seen["users"][0]]
    expected = [{"name": name, "password": f"of {was}"} for name, was in (("c", "c"), ("B", "b"), ("a", "a"))]
    assert restored(seen, original) == {"users": expected}


@pytest.mark.parametrize(
    ("edited", "original"),
    [
        ({"note": f"use {HIDDEN} today"}, {"note": f"use {KEY} now"}),
        ({"elsewhere": HIDDEN}, {"password": "p"}),
        ({"tokens": [HIDDEN]}, {"tokens": ["a", "b"]}),
        ({"body": "y" * 10 + "… (3000 more characters)"}, {"body": "x" * 5_000}),
    ],
    ids=["beside other text", "under another name", "one of two alike", "a cut text"],
)
def test_a_placeholder_that_stands_for_nobody_knows_what_is_refused(edited: JsonValue, original: JsonValue) -> None:
    with pytest.raises(InvalidInput, match="hidden or cut"):
        restored(edited, original)


def test_arguments_that_hold_such_signs_themselves_are_left_alone() -> None:
    original: JsonValue = {"art": HIDDEN, "n": 1}
    assert restored({"art": HIDDEN, "n": 2}, original) == {"art": HIDDEN, "n": 2}


# In a thread.


class Login(BaseModel):
    user: str
    key: SecretStr


class Vault:
    """A tool with secrets of every kind; `got` is what it was really called with."""

    def __init__(self) -> None:
        self.got: list[Any] = []

        @tool
        async def unlock(
            door: str, pin: SecretStr, api_key: str, note: str, login: Login, spare: SecretStr | None = None
        ) -> str:
            opened = [door, pin.get_secret_value(), api_key, note, login.user, login.key.get_secret_value()]
            self.got.append([*opened, spare and spare.get_secret_value()])
            return "open"

        self.tool: Tool = unlock

    def runtime(self, folder: Path, args: dict[str, Any], *, guarded: bool = True) -> LocalRuntime:
        lines: list[Line] = [ToolCall(id="u", name="unlock", args=args), "done"]
        system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(lines)})
        system.use(hitl, tags=["default"]).add_tool(self.tool)
        config: Any = {"hitl": {"tools": ["unlock"] if guarded else []}}
        system.add_agent(name="guard", description="", prompt="g", config=config)
        return LocalRuntime(system, folder)


ARGS: dict[str, Any] = {
    "door": "front",
    "pin": "1234-secret",
    "api_key": "plain-secret",
    "note": f"with {KEY} inside",
    "login": {"user": "ann", "key": "nested-secret"},
    "spare": "spare-secret",
}
REAL = ["front", "1234-secret", "plain-secret", f"with {KEY} inside", "ann", "nested-secret", "spare-secret"]
SECRETS = ["1234-secret", "plain-secret", KEY, "nested-secret", "spare-secret"]


def hides_all(what: object) -> bool:
    return "front" in str(what) and not [secret for secret in SECRETS if secret in str(what)]


def test_a_tool_knows_which_of_its_arguments_hold_secrets() -> None:
    assert Vault().tool.hidden == ("pin", "login", "spare")


async def test_what_people_see_of_a_call_holds_no_secret_and_what_runs_is_whole(tmp_path: Path) -> None:
    vault = Vault()
    async with vault.runtime(tmp_path, ARGS) as runtime:
        thread = await runtime.create_thread("guard")
        await thread.invoke("go")
        envelope = await thread.wait(5)
        assert envelope.meta.pause_reason == "hitl"
        assert hides_all(envelope.model_dump_json())
        await thread.approve()
        assert (await thread.wait(5)).data == "done"
        assert vault.got == [REAL]
        assert hides_all((await thread.state()).model_dump_json())
        found = {event.type: event.data async for event in thread.events(follow=False)}
        assert hides_all(found[EventType.TOOL_STARTED]) and hides_all(found[EventType.HITL_INTERRUPT])
        assert not [secret for secret in SECRETS if secret in str(found)]
        stored = [message for message in messages_of(tmp_path / f"{thread.id}.db") if message.tool_calls]
        assert stored[0].tool_calls[0].args == ARGS  # redaction is for what people see, never for what is stored


async def test_an_edit_that_leaves_placeholders_runs_with_the_real_values_and_shows_none(tmp_path: Path) -> None:
    vault = Vault()
    async with vault.runtime(tmp_path, ARGS) as runtime:
        thread = await runtime.create_thread("guard")
        await thread.invoke("go")
        (pending,) = (await thread.wait(5)).meta.pending_tool_calls
        assert isinstance(pending.args, dict)
        await thread.decide({pending.approval_id: Edit(args={**pending.args, "spare": "a new one"})})
        assert (await thread.wait(5)).data == "done"
        assert vault.got == [[*REAL[:-1], "a new one"]]
        found = {event.type: event.data async for event in thread.events(follow=False)}
        assert hides_all(found[EventType.HITL_RESUME]) and hides_all(found[EventType.TOOL_STARTED])
        assert "a new one" not in str(found) and "a new one" not in (await thread.state()).model_dump_json()
        assert hides_all((await thread.state()).model_dump_json())


async def test_an_edit_with_a_placeholder_where_none_was_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    vault = Vault()
    async with vault.runtime(tmp_path, ARGS) as runtime:
        thread = await runtime.create_thread("guard")
        await thread.invoke("go")
        (pending,) = (await thread.wait(5)).meta.pending_tool_calls
        assert isinstance(pending.args, dict)
        with pytest.raises(InvalidInput, match="hidden or cut"):
            await thread.decide({"u": Edit(args={**pending.args, "note": f"with {HIDDEN} outside"})})
        assert (vault.got, thread.run_state().reason) == ([], "hitl")


async def test_arguments_that_are_refused_do_not_show_up_in_the_refusal(tmp_path: Path) -> None:
    vault = Vault()
    async with vault.runtime(tmp_path, {**ARGS, "pin": 1234987}, guarded=False) as runtime:
        thread = await runtime.create_thread("guard")
        await thread.invoke("go")
        await thread.wait(5)
        assert vault.got == []
        assert "1234987" not in str([event async for event in thread.events(follow=False)])


async def test_calls_that_code_makes_are_shown_without_secrets_too(tmp_path: Path) -> None:
    vault = Vault()

    class Runner:
        async def run(self, code: str, state: JsonValue, call_tool: CallTool) -> CodeResult:
            return CodeResult(output=(await call_tool("unlock", ARGS)).text)

    model = ScriptedModel(["```python\nunlock()\n```", "done"])
    system = AgentSystem("scripted:any", providers={"scripted": model}, code_runner=Runner()).add_tool(vault.tool)
    system.add_agent(name="coder", description="", prompt="code", mode="code")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("coder")
        await thread.invoke("go")
        assert (await thread.wait(5)).data == "done"
        assert vault.got == [REAL]
        found = [event.data async for event in thread.events(follow=False) if event.type == EventType.TOOL_STARTED]
        assert hides_all(found)
