"""Provider entries: what is refused, which keys and headers are sent, and that none of them is ever told."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue, ValidationError

from agency import AgentSystem, ModelError
from agency.models.interface import Described, OneTool
from agency.models.providers import STOCK, open_provider
from agency.models.providers.entry import Provider
from agency.wire import explain
from tests.support.model_requests import api_of, ask
from tests.support.model_script import Reply
from tests.support.model_server import KEY, ModelServer

OTHER = "tok-9876543210fedcbaOTHER"


def entry_for(server: ModelServer, provider: str, **more: Any) -> Provider:
    """An entry at an address of its own."""
    return Provider(api=api_of(provider), base_url=server.environment[f"{provider.upper()}_BASE_URL"], **more)


def sent_key(server: ModelServer) -> str:
    headers = server.requests[-1].headers
    return headers.get("x-api-key") or headers["authorization"].removeprefix("Bearer ")


# What is refused.


@pytest.mark.parametrize("key", [KEY, "env:", "env:has-dash", "file:relative", "ENV:NAME", "env:A\n", ""])
def test_a_key_is_a_reference_and_what_is_none_is_not_repeated(key: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Provider(api="openai", key=key)
    assert "never be the key itself" in explain(raised.value)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("example.org/v1", "https://host/v1"),
        ("ftp://example.org/v1", "https://host/v1"),
        ("https://", "https://host/v1"),
        ("https://example.org:0/v1", "https://host/v1"),
        ("https://[::1/v1", "https://host/v1"),
        (f"https://user:{KEY}@example.org/v1", "no password"),
        ("https://example.org/v1?api-version=1", "no '?'"),
        ("https://example.org/v1#x", "no '?'"),
        ("https://example.org/v 1", "no blanks"),
    ],
)
def test_an_address_has_a_host_and_no_secret(address: str, problem: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Provider(api="openai", base_url=address)
    assert problem in explain(raised.value)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "api-key", "X-Auth-Token", "Cookie", "X-Auth"])
def test_a_header_that_is_a_secret_is_a_reference(name: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Provider(api="openai", headers={name: KEY})
    assert "never be the key itself" in explain(raised.value)
    assert KEY not in str(raised.value)
    assert Provider(api="openai", headers={name: "env:X"}).references == {"env:X"}


@pytest.mark.parametrize("headers", [{"X Title": "a"}, {"X-Title": "a\r\nX-More: b"}, {"X-Title": "ü"}])
def test_a_header_that_cannot_be_sent_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Provider(api="openai", headers=headers)


@pytest.mark.parametrize("body", [{"api_key": "sk-something-secret"}, {"access_token": "x"}])
def test_a_body_holds_no_key(body: dict[str, JsonValue]) -> None:
    with pytest.raises(ValidationError, match="looks like a key") as raised:
        Provider(api="openai", body=body)
    assert "sk-something" not in str(raised.value)


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding"])
def test_a_header_of_the_connection_is_not_for_an_entry(name: str) -> None:
    with pytest.raises(ValidationError, match="belongs to the connection"):
        Provider(api="openai", headers={name: "7"})


def test_an_entry_says_nothing_about_the_conversation() -> None:
    with pytest.raises(ValidationError, match="messages, stream"):
        Provider(api="openai", body={"stream": False, "messages": []})


# What is sent.


async def test_a_key_and_headers_are_looked_up_for_every_call(
    server: ModelServer, provider: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    monkeypatch.setenv("EXTRA", OTHER)
    headers = {"X-Title": "Clerks", "X-Extra-Key": "env:EXTRA"}
    system = AgentSystem("mine:m", providers={"mine": entry_for(server, provider, key=f"file:{file}", headers=headers)})
    seen = []
    for key in (KEY, "sk-a-new-key-of-today"):
        file.write_text(f"{key}\n")
        server.add(Reply(text=("Hi",)))
        model, name = system.model("mine:m")
        await ask("mine", model=name, at=model)
        told = server.requests[-1].headers
        seen.append((sent_key(server), told["x-title"], told["x-extra-key"]))
    assert seen == [(KEY, "Clerks", OTHER), ("sk-a-new-key-of-today", "Clerks", OTHER)]
    assert server.requests[0].peer == server.requests[1].peer


async def test_a_server_of_ones_own_gets_no_key_that_is_not_meant_for_it(
    server: ModelServer, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", f"org-{OTHER}")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", OTHER)
    for sdk in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{sdk}_CUSTOM_HEADERS", f"X-Team: {OTHER}\nAuthorization: Bearer {OTHER}")
    server.add(Reply(text=("Hi",)), Reply(text=("Hi",)))
    for name in ("mine", provider):
        await ask(name, entry=entry_for(server, provider), model="m")
        assert sent_key(server) == "none"
        assert not any(KEY in value or OTHER in value for value in server.requests[-1].headers.values())


async def test_without_an_address_the_sdks_own_variables_count(server: ModelServer, provider: str) -> None:
    server.add(Reply(text=("Hi",)))
    await ask("mine", entry=Provider(api=api_of(provider), timeout_ms=5_000), model="m")
    assert sent_key(server) == KEY


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"key": "env:NOT_THERE"}, "env:NOT_THERE is not set"),
        ({"key": "file:/nowhere/key"}, "file:/nowhere/key cannot be read"),
        ({"key": "env:TWO_LINES"}, "one line"),
        ({"headers": {"X-Api-Key": "env:NOT_THERE"}}, "env:NOT_THERE is not set"),
    ],
)
async def test_a_reference_that_leads_nowhere_is_named(
    server: ModelServer, provider: str, fields: dict[str, Any], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWO_LINES", f"{KEY}\n{OTHER}")
    with pytest.raises(ModelError, match=problem) as raised:
        await ask("mine", entry=entry_for(server, provider, **fields), model="m")
    assert (raised.value.model_code, raised.value.retryable) == ("ERR_AUTH", False)
    assert "mine" in str(raised.value)
    assert KEY not in str(raised.value)
    assert server.requests == []


async def test_fields_of_the_body_are_added_changed_and_left_out(server: ModelServer, provider: str) -> None:
    server.add(Reply(text=("Hi",)))
    body = {"keep_alive": "5m", "temperature": 0.1, "max_tokens": 7, "stream_options": None, "unknown": None}
    await ask("mine", entry=entry_for(server, provider, body=body, max_tokens_field="max_tokens"), model="m")
    sent = server.requests[0].body
    assert (sent["keep_alive"], sent["temperature"], sent["max_tokens"]) == ("5m", 0.1, 7)
    assert not {"stream_options", "unknown", "max_completion_tokens"} & sent.keys()


async def test_a_limit_has_the_name_that_the_server_knows(server: ModelServer) -> None:
    server.add(Reply(text=("Hi",)))
    await ask("mine", entry=entry_for(server, "openai", max_tokens_field="max_tokens"), model="m", max_tokens=50)
    sent = server.requests[0].body
    assert (sent["max_tokens"], "max_completion_tokens" in sent) == (50, False)


async def test_a_tool_that_must_be_called_must_be_there(server: ModelServer, provider: str) -> None:
    with pytest.raises(ModelError, match="'lookup', but is offered no such tool") as raised:
        await ask(provider, tool_choice=OneTool(name="lookup"))
    assert (raised.value.model_code, server.requests) == ("ERR_BAD_REQUEST", [])


# What is told.


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
async def test_no_secret_is_in_an_error_or_a_log(
    server: ModelServer,
    provider: str,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MINE", KEY)
    monkeypatch.setenv("EXTRA", OTHER)
    message = f"Wrong: {KEY}, {KEY[:9]}***, {OTHER}"
    server.add(Reply(status=status, error={"message": message}), Reply(error={"message": message}))
    entry = entry_for(server, provider, key="env:MINE", headers={"X-Extra-Key": "env:EXTRA", "X-Title": "Wrong"})
    for _ in range(2):
        with pytest.raises(ModelError) as raised:
            await ask("mine", entry=entry, model="m")
        assert not any(part in str(raised.value) for part in (KEY[:9], KEY[-6:], OTHER[:9], OTHER[-6:]))
        assert raised.value.__cause__ is None
    assert "Wrong" in str(raised.value)  # what is no secret is told
    sent = [record for record in caplog.records if record.name.partition(".")[0] in ("openai", "anthropic", "httpx2")]
    assert sent
    assert not any(part in record.getMessage() for record in sent for part in (KEY[:9], OTHER[:9]))
    assert KEY not in f"{entry!r} {open_provider('mine', entry)!r} {entry.model_dump_json()}"


def test_an_entry_says_what_its_models_can_do(provider: str) -> None:
    stock = STOCK[provider]
    told = open_provider("mine", Provider(api=api_of(provider), capabilities=("tools", "streaming")))
    assert isinstance(stock, Described)
    assert isinstance(told, Described)
    assert stock.capabilities("any") >= {"tools", "images", "structured_output", "reasoning", "prompt_caching"}
    assert told.capabilities("any") == {"tools", "streaming"}
