"""What real models need of the gateway: providers, chains, images, results that must fit, usage, budgets."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import httpx
import pytest

from agency.messages import IMAGE_BYTES
from tests.support.gateway_requests import assert_problem, create, finished, stored
from tests.support.gateways import Server
from tests.support.model_script import Reply
from tests.support.model_server import ModelServer
from tests.support.scripted_system import calls, say

CALL = 15


@pytest.fixture
def model() -> ModelServer:
    """A scripted server, not yet begun."""
    return ModelServer()


def entry(server: ModelServer, **more: Any) -> dict[str, Any]:
    return {"api": "openai", "baseUrl": f"{server.url}/v1", **more}


def clerk(http: httpx.Client, agency: str, **fields: Any) -> httpx.Response:
    return http.post(f"/agency/{agency}/blueprints", json={"name": "clerk", **fields})


async def ran(http: httpx.Client, agency: str, **body: Any) -> Any:
    """The end of a run that a scripted server in this very loop replies to."""

    def run() -> Any:
        made = http.post(f"/agency/{agency}/agents", json={"agentType": "clerk", **body})
        assert made.status_code == 201, made.text
        return finished(http, agency, made.json()["id"])

    return await asyncio.to_thread(run)


def hello(**more: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": "Hello?", **more}]


# Providers.


def test_providers_are_put_listed_and_deleted_by_whoever_administers_the_agency(
    http: httpx.Client, agency: str, gateway: Server
) -> None:
    path = f"/agency/{agency}/providers"
    wanted = {"api": "openai", "baseUrl": "http://localhost:11434/v1", "key": "env:AGENCY_KEY_MINE"}
    made = http.put(f"{path}/mine", json=wanted)
    assert (made.status_code, made.json()["source"]) == (201, "agency")
    assert {name: made.json()["entry"][name] for name in wanted} == wanted
    assert http.put(f"{path}/mine", json={**wanted, "timeoutMs": 5_000}).status_code in (200, 201)
    listed = http.get(path).json()["providers"]
    assert {each["name"]: each["source"] for each in listed} | {"demo": "code", "mine": "agency"} == {
        each["name"]: each["source"] for each in listed
    }
    assert http.get(path, params={"after": "mine", "limit": 1}).json()["providers"][0]["name"] > "mine"
    theirs = {"api": "openai", "baseUrl": "https://models.example.org/v1"}
    for role, status in (("viewer", 403), ("operator", 403), ("admin", 200)):
        key = http.post(f"/agency/{agency}/keys", json={"name": role, "role": role}).json()["key"]
        with gateway.client(Authorization=f"Bearer {key}") as holder:
            assert holder.get(path).status_code == status
            assert holder.put(f"{path}/mine", json=theirs).status_code == status
            if role == "admin":
                assert "AGENCY_PRIVATE_HOSTS" in assert_problem(
                    holder.put(f"{path}/mine", json={**wanted, "key": None}), 400, "ERR_INVALID_INPUT"
                )
                assert "AGENCY_KEYS" in assert_problem(
                    holder.put(f"{path}/mine", json={**theirs, "key": wanted["key"]}), 400, "ERR_INVALID_INPUT"
                )
                assert holder.get(path, params={"after": "mind"}).json()["providers"][0]["setBy"] == "agency"
            assert holder.put(f"/agency/{agency}/budget", json={}).status_code == status
            assert holder.get(f"/agency/{agency}/usage").status_code == 200
    assert http.delete(f"{path}/mine").status_code == 204
    assert_problem(http.delete(f"{path}/mine"), 404, "ERR_NOT_FOUND")
    assert_problem(http.get("/agency/agc_nobody/providers"), 404, "ERR_NOT_FOUND")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"key": "env:OPENAI_API_KEY"}, "AGENCY_KEY_"),
        ({"key": "file:/etc/hostname"}, "AGENCY_KEY_"),
        ({"headers": {"X-Team": "env:HOME"}}, "AGENCY_KEY_"),
        ({"key": "sk-0123456789"}, "never be the key itself"),
        ({"headers": {"Authorization": "Bearer sk-0123456789"}}, "never be the key itself"),
        ({"api": "smoke signals"}, "api"),
        ({"baseUrl": "http://user:sk-0123456789@localhost"}, "no password"),
    ],
)
def test_a_provider_that_is_refused_is_explained_and_not_repeated(
    http: httpx.Client, agency: str, wrong: dict[str, Any], said: str
) -> None:
    body = {"api": "openai", "baseUrl": "http://localhost/v1", **wrong}
    answer = http.put(f"/agency/{agency}/providers/mine", json=body)
    assert said in assert_problem(answer, 400, "ERR_INVALID_INPUT")
    assert "sk-0123456789" not in answer.text


async def test_a_chain_of_models_falls_back_and_the_run_tells_of_it(
    http: httpx.Client, agency: str, model: ModelServer
) -> None:
    async with model:
        for name in ("first", "second"):
            prices = {"m": {"input": 1.0, "output": 2.0}}
            put = await asyncio.to_thread(
                http.put, f"/agency/{agency}/providers/{name}", json=entry(model, prices=prices)
            )
            assert put.status_code == 201
        chain = ["first:m", {"model": "second:m", "requires": ["tools"]}]
        made = clerk(http, agency, model=chain, params={"maxTokens": 100, "temperature": 0.5}, requires=["streaming"])
        assert made.status_code == 201, made.text
        assert (made.json()["model"], made.json()["requires"]) == (chain, ["streaming"])
        model.add(Reply(status=529, error={"message": "busy"}), Reply(text=("Hello!",)))
        run = await ran(http, agency, messages=hello())
        assert (run["data"], run["meta"]["model"]) == ("Hello!", "second:m")
        (attempt,) = run["meta"]["attempts"]
        assert (attempt["model"], attempt["code"]) == ("first:m", "ERR_OVERLOADED")
        assert run["meta"]["costUsd"] == pytest.approx((10 * 1.0 + 5 * 2.0) / 1_000_000)
        assert model.requests[-1].body["temperature"] == 0.5
        listed = http.get(f"/agency/{agency}/agents").json()["agents"][0]
        assert (listed["costUsd"], listed["tokensUsed"]["output"]) == (run["meta"]["costUsd"], 5)


@pytest.mark.parametrize(
    "wrong", [{"model": []}, {"model": ["nobody:m"]}, {"model": [{"requires": ["tools"]}]}, {"requires": ["magic"]}]
)
def test_a_chain_that_cannot_be_is_refused(http: httpx.Client, agency: str, wrong: dict[str, Any]) -> None:
    answer = clerk(http, agency, **wrong)
    assert_problem(answer, 400, answer.json()["code"])


# Images.


async def test_an_image_of_the_largest_size_reaches_the_model(
    http: httpx.Client, agency: str, model: ModelServer
) -> None:
    data = base64.b64encode(bytes(IMAGE_BYTES)).decode()
    async with model:
        put = await asyncio.to_thread(http.put, f"/agency/{agency}/providers/mine", json=entry(model))
        assert put.status_code == 201
        assert clerk(http, agency, model="mine:m").status_code == 201
        model.add(Reply(text=("Nothing to see.",)))
        image = {"mediaType": "image/png", "data": data}
        run = await ran(http, agency, messages=hello(images=[image, {"url": "https://example.org/cake.png"}]))
        assert run["data"] == "Nothing to see."
        assert data in str(model.requests[-1].body["messages"])


@pytest.mark.parametrize(
    ("images", "status", "code"),
    [
        ([{"mediaType": "image/png", "data": "no base64!"}], 400, "ERR_INVALID_INPUT"),
        ([{"mediaType": "image/tiff", "data": "AAAA"}], 400, "ERR_INVALID_INPUT"),
        ([{"data": "AAAA"}], 400, "ERR_INVALID_INPUT"),
        ([{"url": "https://example.org/a.png"}] * 21, 400, "ERR_INVALID_INPUT"),
        ([{"mediaType": "image/png", "data": "A" * 6_000_000}] * 3, 413, "ERR_TOO_LARGE"),
    ],
)
def test_images_that_cannot_be_taken_are_refused(
    http: httpx.Client, agency: str, images: list[dict[str, str]], status: int, code: str
) -> None:
    body = {"agentType": "clerk", "messages": hello(images=images)}
    assert_problem(http.post(f"/agency/{agency}/agents", json=body), status, code)


def test_a_message_says_something(http: httpx.Client, agency: str) -> None:
    body = {"agentType": "clerk", "messages": [{"role": "user"}]}
    said = assert_problem(http.post(f"/agency/{agency}/agents", json=body), 400, "ERR_INVALID_INPUT")
    assert "`content` or `images`" in said


# Results that must fit.

ORDER = {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}


async def test_a_result_fits_the_schema_of_the_run_or_of_the_blueprint(
    http: httpx.Client, agency: str, model: ModelServer
) -> None:
    async with model:
        await asyncio.to_thread(http.put, f"/agency/{agency}/providers/mine", json=entry(model))
        assert clerk(http, agency, model="mine:m").status_code == 201
        model.add(Reply(text=('{"order": 7}',)))
        run = await ran(http, agency, messages=hello(), outputSchema=ORDER)
        assert (run["status"], run["data"]) == ("completed", {"order": 7})
        made = clerk(http, agency, outputSchema={**ORDER, "title": "Of the blueprint"})
        assert (made.json()["outputSchema"]["title"], made.json()["model"]) == ("Of the blueprint", "mine:m")
        model.add(Reply(text=('{"order": 8}',)))
        run = await ran(http, agency, messages=hello())
        assert run["data"] == {"order": 8}
        thread = run["meta"]["threadId"]
        model.add(Reply(text=('{"name": "x"}',)))
        other = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        sent = http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": hello(), "outputSchema": other})
        assert sent.status_code == 202
        assert (await asyncio.to_thread(finished, http, agency, thread))["data"] == {"name": "x"}
        cleared = clerk(http, agency, outputSchema=None)
        assert cleared.json()["outputSchema"] is None


def test_a_schema_that_is_none_is_refused(http: httpx.Client, agency: str) -> None:
    wrong = {"type": "no such type"}
    body = {"agentType": "clerk", "messages": hello(), "outputSchema": wrong}
    assert_problem(http.post(f"/agency/{agency}/agents", json=body), 400, "ERR_INVALID_INPUT")
    assert_problem(clerk(http, agency, outputSchema=wrong), 400, "ERR_DEFINITION")


# Usage and budgets.


def test_usage_and_budget_of_an_agency(http: httpx.Client, agency: str) -> None:
    assert http.get(f"/agency/{agency}/usage").json()["tokensUsed"]["input"] == 0
    set_to = http.put(f"/agency/{agency}/budget", json={"tokens": CALL, "costUsd": None})
    assert (set_to.status_code, set_to.json()["budget"]["tokens"]) == (200, CALL)
    assert http.get(f"/agency/{agency}").json()["budget"] == set_to.json()["budget"]
    thread = create(http, agency, calls(("nothing_like_it", {})), say("done"), agent="broker")
    run = finished(http, agency, thread)
    assert (run["status"], run["meta"]["pauseReason"], run["errors"][0]["code"]) == (
        "paused",
        "exhausted",
        "ERR_AGENCY_TOKENS",
    )
    lifted = http.post(f"/agency/{agency}/agent/{thread}/limits", json={"costUsd": 5})
    assert "budget" in assert_problem(lifted, 409, "ERR_WRONG_STATE")
    assert http.get(f"/agency/{agency}/usage").json()["exhausted"] == "ERR_AGENCY_TOKENS"
    assert http.put(f"/agency/{agency}/budget", json={"costUsd": 100.0}).json()["exhausted"] is None
    while (run := finished(http, agency, thread))["status"] != "completed":
        assert run["status"] in ("paused", "running")
    used = http.get(f"/agency/{agency}/usage").json()
    assert (used["turns"], used["costUsd"], used["threads"]) == (2, 0.03, 1)
    (told, again) = (event["data"] for event in stored(http, agency, thread) if event["type"] == "model.completed")
    assert (told["costUsd"], again["totalCostUsd"]) == (0.015, 0.03)


@pytest.mark.parametrize("wrong", [{"tokens": -1}, {"costUsd": -0.1}, {"tokens": 1.5}, {"days": 1}, []])
def test_a_budget_that_is_none_is_refused(http: httpx.Client, agency: str, wrong: Any) -> None:
    assert_problem(http.put(f"/agency/{agency}/budget", json=wrong), 400, "ERR_INVALID_INPUT")


def test_a_limit_of_cost_pauses_a_run_until_a_person_lifts_it(http: httpx.Client, agency: str) -> None:
    lines = (calls(("nothing_like_it", {})), say("done"))
    thread = create(http, agency, *lines, agent="broker", limits={"costUsd": 0.01})
    assert finished(http, agency, thread)["errors"][0]["code"] == "ERR_COST_LIMIT"
    assert_problem(http.post(f"/agency/{agency}/agent/{thread}/limits", json={"costUsd": 0}), 400, "ERR_INVALID_INPUT")
    assert http.post(f"/agency/{agency}/agent/{thread}/limits", json={"costUsd": 1}).status_code == 200
    assert finished(http, agency, thread)["data"] == "done"
