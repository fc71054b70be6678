"""Names have no characters that are not seen, or that change how the rest is seen. What had them before still works."""

from __future__ import annotations

import unicodedata
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.support.gateway_requests import assert_problem, create, finished
from tests.support.scripted_system import say

WRONG = ["\0", "\x1b", "\x85", "\u061c", "\u200e", "\u200f", "\u2028", "\u202a", "\u202e", "\u2066", "\u2069"]
WRONG += ["\u200b", "\ufeff", "\u00ad", "\u206a", "\u2060", "\U000e0041"]
FREE = "a\u202eb\u2066c\x1b[31m"
TIMING = {"agentType": "clerk", "message": "hello", "kind": "interval", "everyMs": 3_600_000}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: f"U+{ord(each):04X}")
def test_no_name_takes_a_control_or_a_change_of_direction(http: httpx.Client, agency: str, wrong: str) -> None:
    name = f"a{wrong}b"
    thread, here = create(http, agency), f"/agency/{agency}"
    path = {"path": f"/{name}"}
    schedule = http.post(f"{here}/schedules", json={"name": "daily", **TIMING}).json()["id"]
    refused: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/agencies", {"json": {"name": name}}),
        ("PATCH", here, {"json": {"name": name}}),
        ("POST", f"{here}/keys", {"json": {"name": name, "role": "viewer"}}),
        ("POST", f"{here}/blueprints", {"json": {"name": name, "prompt": "x"}}),
        ("POST", f"{here}/blueprints", {"json": {"name": "b", "prompt": "x", "tags": [name]}}),
        ("POST", f"{here}/blueprints", {"json": {"name": "b", "prompt": "x", "tools": [name]}}),
        ("PUT", f"{here}/providers/{quote(name)}", {"json": {"api": "openai", "baseUrl": "http://127.0.0.1:9"}}),
        ("PUT", f"{here}/policy", {"json": {"rules": [{"tool": name, "risk": "high"}]}}),
        ("POST", f"{here}/blueprints", {"json": {"name": "b", "prompt": "x", "model": f"script:{name}"}}),
        ("POST", f"{here}/blueprints", {"json": {"name": "b", "prompt": "x", "config": {name: {}}}}),
        ("POST", f"{here}/agent/{thread}/invoke", {"json": {"messages": [], "model": f"script:{name}"}}),
        ("POST", f"{here}/schedules", {"json": {"name": name, **TIMING}}),
        ("PATCH", f"{here}/schedules/{schedule}", {"json": {"name": name}}),
        ("PATCH", f"{here}/agent/{thread}", {"json": {"title": name}}),
        ("PUT", f"{here}/agent/{thread}/file", {"params": path, "content": b"x"}),
        ("PATCH", f"{here}/agent/{thread}/state", {"json": {"state": {"files": {f"/{name}": "x"}}}}),
        ("POST", f"{here}/agents", {"json": {"agentType": "clerk", "files": {f"/{name}": "x"}}}),
        ("POST", f"{here}/agent/{thread}/invoke", {"json": {"files": {f"/{name}": "x"}}}),
        ("PUT", f"{here}/shelf/notes/{quote(name)}", {"content": b"x"}),
        ("PUT", f"{here}/shelf/{quote(name)}/today.md", {"content": b"x"}),
    ]
    if unicodedata.category(wrong) == "Zl" or wrong == "\x85":  # blanks, which a title has as spaces
        refused = [each for each in refused if "title" not in str(each)]
    for method, address, body in refused:
        told = assert_problem(http.request(method, address, **body), 400, "ERR_INVALID_INPUT")
        assert wrong not in told, address


def test_names_have_what_scripts_and_emoji_need(http: httpx.Client, agency: str) -> None:
    for name in ("\U0001f469\u200d\U0001f33e", "\u0646\u0627\u0646\u200c\u0648\u0627", "\u0e02\u0e19\u0e21"):
        made = http.post("/agencies", json={"name": name})
        assert (made.status_code, made.json()["name"]) == (201, name)


def test_texts_are_free_and_a_title_is_cleaned(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency, say("done"), agent="clerk")
    assert finished(http, agency, thread)["status"] == "completed"
    told = http.post(f"/agency/{agency}/blueprints", json={"name": "b", "prompt": FREE, "description": FREE})
    assert (told.status_code, told.json()["prompt"]) == (201, FREE), told.text
    other = http.post(f"/agency/{agency}/agents", json={"agentType": "clerk", "messages": [{"content": FREE}]})
    assert finished(http, agency, other.json()["id"])["status"]
    page = http.get(f"/agency/{agency}/agents").json()["agents"]
    assert {each["title"] for each in page if each["id"] == other.json()["id"]} == {"abc[31m"}
    messages = http.get(f"/agency/{agency}/agent/{other.json()['id']}/state").json()["state"]["messages"]
    assert messages[0]["content"] == FREE
