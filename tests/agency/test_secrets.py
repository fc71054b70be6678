"""Secrets by reference: what may be named, who gets a value, and that none of them is ever stored or said."""

from __future__ import annotations

import base64
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import pytest
from pydantic import BaseModel, Field, ValidationError

from actors import logs
from agency import (
    AgentSystem,
    Blueprint,
    DefinitionError,
    Fail,
    Finish,
    HookContext,
    Image,
    LocalRuntime,
    Middleware,
    ModelReply,
    Plan,
    Secret,
    ToolContext,
    ToolError,
    ToolResult,
    secret,
    tool,
)
from agency import secrets as secrets_module
from agency.secrets import (
    FEW,
    REDACTED,
    NoSecret,
    handed,
    look_up,
    named_in,
    references_in,
    remember,
    remember_environment,
    without_secrets,
)
from agency.testing import Line, ScriptedModel, call
from middleware import subagents
from tests.support.waiting import eventually

Build = Callable[..., tuple[LocalRuntime, ScriptedModel]]

VALUE = 'planted/"value" ünd+4711'


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", VALUE)
    monkeypatch.delenv("NOT_SET", raising=False)


def spellings(value: str = VALUE) -> list[str]:
    encoded = base64.b64encode(f"user:{value}".encode()).decode()
    return [value, json.dumps(value), quote(value), json.dumps(value, ensure_ascii=False), encoded]


def stored(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def assert_nowhere(*texts: str | bytes) -> None:
    for text in texts:
        said = text if isinstance(text, str) else text.decode("utf-8", "replace")
        assert not [each for each in spellings() if each in said]


# References.


@pytest.mark.parametrize("wrong", ["", "SHOP_KEY", "env:", "env:A B", "file:relative", "sk-0123456789", "env:X\n"])
def test_a_secret_says_where_it_is_and_never_what(wrong: str) -> None:
    with pytest.raises(DefinitionError, match="must say where the key is, as in 'env:NAME' or 'file:/path'") as raised:
        secret(wrong)
    assert len(wrong) < 8 or wrong not in str(raised.value)


def test_a_file_is_read_at_every_use(tmp_path: Path) -> None:
    place = tmp_path / "key"
    reference = secret(f"file:{place}")
    with pytest.raises(NoSecret, match=r"cannot be read \(FileNotFoundError\)"):
        look_up(reference)
    place.write_text("first value\n")
    assert look_up(reference) == "first value"
    place.write_text("second value\n")
    assert look_up(reference) == "second value"
    place.write_text("\n")
    with pytest.raises(NoSecret, match="is empty"):
        look_up(reference)
    place.write_text("x" * 20_000)
    with pytest.raises(NoSecret, match="is longer than 16000 characters"):
        look_up(reference)


def test_what_is_handed_to_a_worker_counts_for_the_time_of_the_call() -> None:
    with handed({"env:NOT_SET": "only for this call"}):
        assert look_up("env:NOT_SET") == "only for this call"
    with pytest.raises(NoSecret, match="env:NOT_SET is not set"):
        look_up("env:NOT_SET")


def test_references_are_found_at_any_depth() -> None:
    class Inner(BaseModel):
        key: Secret

    class Outer(BaseModel):
        many: list[Inner]
        text: str = "env:NO_SECRET_BY_ITS_TYPE"

    found = references_in(Outer.model_validate({"many": [{"key": "env:A"}, {"key": "file:/b"}]}))
    assert sorted(found) == ["env:A", "file:/b"]
    assert sorted(named_in({"a": ["env:A", {"b": "file:/b"}], "c": "an env:A in a text", "d": 1})) == [
        "env:A",
        "file:/b",
    ]


@pytest.mark.parametrize("spelled", spellings())
def test_a_value_is_taken_out_however_it_is_spelled(spelled: str) -> None:
    look_up("env:SHOP_KEY")
    said = without_secrets(f"before {spelled} after")
    assert REDACTED in said and said.startswith("before ") and said.endswith(" after")
    assert_nowhere(said)


def test_what_is_too_short_to_be_told_from_words_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHORT", "on")
    assert look_up("env:SHORT") == "on"
    assert without_secrets("once upon") == "once upon"


# Tools.


@tool(secrets={"key": secret("env:SHOP_KEY"), "missing": secret("env:NOT_SET")})
async def leak(how: str, ctx: ToolContext) -> object:
    """Say it in all the ways there are."""
    value = ctx.secret("missing" if how == "missing" else "other" if how == "other" else "key")
    ctx.store.put("leak", "text", {"value": value, value: [value]})
    await ctx.shelf("leaks").write(f"text/{how}", f"it is {value}")
    match how:
        case "text":
            return f"it is {value}"
        case "json":
            return {"value": value, value: [value]}
        case "cut":
            return "x" * (100_000 - 5) + value
        case "finish":
            return Finish(value={"value": value})
        case "fail":
            return Fail(message=f"no {value}")
        case "told":
            raise ToolError(f"refused {value}", kind="permission_denied")
        case "picture":
            return ToolResult("seen", images=[Image(url=f"https://shop.example.org/a.png?key={quote(value)}")])
        case "asked":
            return (await ctx.ask_model(f"Is {value} a key?", system=f"You know {value}.")).text
        case "waits":
            return await ctx.wait_outside(f"what {value} opens", timeout_ms=1)
        case "json it cannot say":
            return {"value": value, "what": object()}
        case _:
            raise ValueError(value)


HOWS = ("text", "json", "cut", "finish", "fail", "told", "raised", "picture", "asked", "waits", "json it cannot say")


@pytest.mark.parametrize("how", HOWS)
async def test_a_tool_gets_the_value_and_nothing_that_it_says_has_it(how: str, build: Build, tmp_path: Path) -> None:
    runtime, model = build([call("leak", how=how), "done"], leak)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        run = await thread.wait(timeout=10)
        state = await thread.state()
        events = [repr(event) async for event in thread.events(follow=False)]
        said = [message.content for message in state.messages if message.role == "tool"]
    assert how in ("cut", "asked", "picture", "json it cannot say") or REDACTED in "".join(
        [*said, run.model_dump_json()]
    )
    requests = [repr(request) for request in model.requests]
    assert_nowhere(run.model_dump_json(), state.model_dump_json(), *events, *requests, stored(tmp_path))
    if how == "cut":
        assert "plant" not in said[0]


@pytest.mark.parametrize("settled", [{"result": {"used": VALUE}}, {"error": f"{VALUE} was refused"}])
async def test_what_settles_a_call_from_outside_has_no_value(
    settled: dict[str, Any], build: Build, tmp_path: Path
) -> None:
    tokens: list[str] = []

    @tool(secrets={"key": secret("env:SHOP_KEY")})
    async def pay(ctx: ToolContext) -> object:
        """Pay."""
        ctx.secret("key")
        wait = await ctx.wait_outside("the bank", timeout_ms=60_000)
        tokens.append(wait.token)
        return wait

    runtime, model = build([call("pay"), "done"], pay)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await eventually(lambda: thread.run_state().reason == "outside")
        await thread.settle(tokens[0], **settled)
        assert (await thread.wait(timeout=10)).status == "completed"
        events = [repr(event) async for event in thread.events(follow=False)]
    assert REDACTED in repr(model.requests[-1])
    assert_nowhere(*events, repr(model.requests), stored(tmp_path))


async def test_a_secret_that_is_not_set_or_not_declared_fails_the_call_and_is_named(build: Build) -> None:
    runtime, _ = build([call("leak", how="missing"), call("leak", how="other"), "done"], leak)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(timeout=10)
        missing, other = [message.content for message in (await thread.state()).messages if message.role == "tool"]
    assert "env:NOT_SET is not set" in missing
    assert "tool 'leak' declares no secret 'other'; it declares: key, missing" in other


def test_a_tools_secrets_are_references() -> None:
    with pytest.raises(DefinitionError, match="secrets") as raised:

        @tool(secrets={"key": VALUE})  # type: ignore[dict-item]  # what is to be refused
        def wrong(ctx: ToolContext) -> str:
            return ""

    assert_nowhere(str(raised.value))


# Middleware.


class ShopConfig(BaseModel):
    key: Annotated[Secret, Field(description="Where the key is.")] = secret("env:SHOP_KEY")


class Shop(Middleware[ShopConfig]):
    """Says its secret wherever a hook can say something."""

    name = "shop"
    tags = ("default",)
    config_model = ShopConfig
    secrets: Mapping[str, Secret]

    def __init__(self, where: str) -> None:
        self.where = where
        self.secrets = {"declared": secret("env:SHOP_KEY")}

    async def on_init(self, ctx: HookContext[ShopConfig]) -> None:
        if self.where == "tool":

            @tool(secrets={"x": secret("env:UNDECLARED")})
            def strange(ctx: ToolContext) -> str:
                return ""

            ctx.register_tool(strange)

    async def before_model(self, ctx: HookContext[ShopConfig], plan: Plan) -> None:
        value = ctx.secret(ctx.config.key)
        assert value == ctx.secret("declared") == VALUE
        if self.where == "prompt":
            plan.add_prompt(f"use {value}")
        if self.where == "post":
            ctx.inject("user", f"it is {value}")
        if self.where == "store":
            ctx.store.put("shop", "key", value)
        if self.where == "raise":
            raise ValueError(value)
        if self.where == "undeclared":
            ctx.secret(secret("env:PATH"))

    async def on_model_result(self, ctx: HookContext[ShopConfig], reply: ModelReply) -> None:
        for each in reply.tool_calls:
            if self.where == "ask":
                ctx.ask(each.id, note=f"with {ctx.secret('declared')}")

    async def on_turn_end(self, ctx: HookContext[ShopConfig]) -> Finish | Fail | None:
        value = ctx.secret("declared")
        if self.where == "finish":
            return Finish(value=[value])
        return Fail(message=value) if self.where == "fail" else None

    async def state(self, ctx: HookContext[ShopConfig]) -> dict[str, Any]:
        return {"shop": {"key": ctx.secret("declared")}} if self.where == "state" else {}


def shop_system(where: str, *script: Line) -> tuple[AgentSystem, ScriptedModel]:
    model = ScriptedModel(script or ["done"])
    system = AgentSystem("scripted:any", providers={"scripted": model}).use(Shop(where)).add_tool(leak)
    system.add_agent(name="clerk", description="Does clerical work.", prompt="You are a clerk.")
    return system, model


@pytest.mark.parametrize("where", ["prompt", "post", "store", "raise", "ask", "finish", "fail", "state"])
async def test_a_middleware_gets_the_value_and_nothing_that_it_says_has_it(where: str, tmp_path: Path) -> None:
    system, model = shop_system(where, call("leak", how="text"), "done")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        run = await thread.wait(timeout=10)
        state = await thread.state()
        events = [repr(event) async for event in thread.events(follow=False)]
        requests = [repr(request) for request in model.requests]
    assert REDACTED in "".join([run.model_dump_json(), state.model_dump_json(), *events, *requests]) or where == "store"
    assert_nowhere(run.model_dump_json(), state.model_dump_json(), *events, *requests, stored(tmp_path))


async def test_a_middleware_looks_up_what_it_declares_and_nothing_else(tmp_path: Path) -> None:
    system, _ = shop_system("undeclared")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        run = await thread.wait(timeout=10)
    assert "middleware 'shop' declares no secret 'env:PATH'" in run.errors[0].message


async def test_a_middlewares_tools_need_what_it_declares(tmp_path: Path) -> None:
    system, _ = shop_system("tool")
    async with LocalRuntime(system, tmp_path) as runtime:
        with pytest.raises(
            DefinitionError, match="'strange' needs env:UNDECLARED: middleware 'shop' must declare that"
        ):
            await runtime.create_thread("clerk")


def test_a_middlewares_secrets_are_references_and_so_are_those_of_its_configuration() -> None:
    class Wrong(Middleware):
        name = "wrong"
        secrets = {"key": VALUE}  # type: ignore[dict-item]  # what is to be refused

    with pytest.raises(DefinitionError, match=r"secrets are a mapping as in \{\"key\": secret") as raised:
        AgentSystem("demo:default").use(Wrong())
    assert_nowhere(str(raised.value))
    with pytest.raises(ValidationError, match="must say where the key is"):
        ShopConfig.model_validate({"key": "not-a-reference"})


def test_a_system_lists_what_its_parts_name() -> None:
    system, _ = shop_system("prompt")
    system.add_agent(name="other", description="Other.", prompt="Other.", config={"shop": {"key": "env:OTHER_KEY"}})
    listed = {each.owner: sorted(each.references) for each in system.secrets}
    assert listed == {
        "tool 'leak'": ["env:NOT_SET", "env:SHOP_KEY"],
        "middleware 'shop'": ["env:SHOP_KEY"],
        "agent 'clerk'": ["env:SHOP_KEY"],
        "agent 'other'": ["env:OTHER_KEY"],
    }
    assert system.references >= {"env:NOT_SET", "env:SHOP_KEY", "env:OTHER_KEY", "env:OPENAI_API_KEY"}


def test_what_an_agent_inside_of_an_agent_names_counts_for_it() -> None:
    system, _ = shop_system("prompt")
    inner = Blueprint(name="inner", description="Inner.", prompt="Inner.", config={"shop": {"key": "env:INNER_KEY"}})
    system.use(subagents).add_agent(
        name="outer",
        description="Outer.",
        prompt="Outer.",
        tags=["default", "subagents"],
        config={"subagents": {"subagents": [inner]}},
    )
    assert "env:INNER_KEY" in {each.owner: each.references for each in system.secrets}["agent 'outer'"]


# Logs.


@pytest.mark.parametrize("form", ["text", "traceback"])
def test_a_log_line_has_no_value_whoever_writes_it(form: Literal["text", "traceback"]) -> None:
    look_up("env:SHOP_KEY")
    written, root = StringIO(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        logs.set_up("INFO", written)
        if form == "text":
            logging.getLogger("someone.elses").warning("connected with %s", VALUE)
        else:
            try:
                raise ValueError(VALUE)
            except ValueError:
                logging.getLogger("someone.elses").exception("failed")
    finally:
        root.handlers[:], root.level = handlers, level
    assert REDACTED in written.getvalue()
    assert_nowhere(written.getvalue())


# What the environment has, whoever may look it up.


@pytest.fixture
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets_module, "_values", {})
    monkeypatch.setattr(secrets_module, "_spellings", ())
    monkeypatch.setattr(secrets_module, "_pattern", None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STRIPE_KEY", "rk_live_4711abcdef"),
        ("GITHUB_TOKEN", "ghp_abcdefghij0123"),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG"),
        ("SECRET_KEY_BASE", "3b1f9c2e77aa"),
        ("DB_PASSWORD", "correct-horse-battery"),
        ("AGENCY_SECRET", "seven77"),
    ],
)
def test_a_variable_that_goes_by_a_secrets_name_is_known(
    name: str, value: str, nothing_known: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    remember_environment()
    for said in (value, quote(value, safe=""), json.dumps(value)[1:-1]):
        assert without_secrets(f"401 for {said}!") == f"401 for {REDACTED}!"
    basic = base64.b64encode(f"user:{value}".encode()).decode()
    assert basic[10:-4] not in without_secrets(basic)


def test_the_password_in_an_address_is_known(nothing_known: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://shop:s3cr%2Ft-4711x@db/shop")
    remember_environment()
    assert without_secrets("no login with s3cr/t-4711x") == f"no login with {REDACTED}"
    assert without_secrets("postgresql://shop:s3cr%2Ft-4711x@db/shop") == f"postgresql://shop:{REDACTED}@db/shop"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SSL_KEY", "/etc/ssl/private/key.pem"),
        ("PGPASSWORD", "postgres"),
        ("MAX_TOKENS", "100000000000"),
        ("SORT_KEY", "descending"),
        ("KEYBOARD", "us-intl-with-dead-keys"),
        ("PATH_TO_IT", "sk-4711-abcdef-4711"),
    ],
)
def test_words_numbers_and_places_are_left_in_texts(
    name: str, value: str, nothing_known: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    remember_environment()
    assert without_secrets(f"it is {value}") == f"it is {value}"


@pytest.mark.parametrize("count", [1, 2, FEW, 30, 300])
def test_however_many_values_are_known_all_are_taken_out(count: int, nothing_known: None) -> None:
    values = [f"sk-{n:04d}-{'x' * (n % 7)}secret" for n in range(count)] + ["aaaaaa", "aaaaaaa", "aaaaaaaabb"]
    for each in values:
        remember(each)
    for each in values:
        assert without_secrets(f"({each})") == f"({REDACTED})"
    assert without_secrets("nothing of that") == "nothing of that"


async def test_what_a_tool_finds_in_its_environment_is_stored_nowhere(
    tmp_path: Path, nothing_known: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reference names it, and the tool looks it up by itself."""
    monkeypatch.setenv("PAYMENTS_API_KEY", VALUE)

    @tool
    async def pay(how: str) -> str:
        """Pay."""
        sys.stdout.write(os.environ["PAYMENTS_API_KEY"])
        logging.getLogger("payments").warning("with %s", os.environ["PAYMENTS_API_KEY"])
        if how == "told":
            raise ToolError(f"refused: {os.environ['PAYMENTS_API_KEY']}")
        if how == "raised":
            raise ValueError(os.environ["PAYMENTS_API_KEY"])
        return os.environ["PAYMENTS_API_KEY"]

    asked = [call("pay").model_copy(update={"args": {"how": how}, "id": how}) for how in ("said", "told", "raised")]
    lines: list[Line] = [asked, "done"]
    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(lambda request: lines.pop(0))})
    system.add_tool(pay).add_agent(name="clerk", description="Pays.", prompt="Pay.")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("pay")
        run = await thread.wait(timeout=10)
        assert run.data == "done"
        state = await thread.state()
        assert [REDACTED in each.content for each in state.messages if each.role == "tool"] == [True] * 3
        assert_nowhere(run.model_dump_json(), state.model_dump_json())
        assert_nowhere(*[event.model_dump_json() for event in thread.reader(0).take(1_000)])
    assert_nowhere(stored(tmp_path))
