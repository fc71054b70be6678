"""What the gateway says of itself and of what is behind it: health, figures, its description, its logs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from actors.cluster import local_ray
from dashboard.gateway.examples import EXAMPLES
from tests.support.gateway_requests import Json, create, finished
from tests.support.gateways import Serve, Server
from tests.support.scripted_system import calls, noting, say, task
from tests.support.waiting import eventually_sync

PATIENCE = 20.0


def test_it_is_healthy_when_a_thread_could_run(http: httpx.Client) -> None:
    answer = http.get("/healthz")
    assert (answer.status_code, answer.json()["status"]) == (200, "ready")
    assert answer.json()["hosts"] >= 1


def test_the_status_names_the_hosts_and_what_lives_there(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency, say("later", delay=20))
    status = http.get("/status").json()
    assert f"{agency}/{thread}" in [each for host in status["hosts"] for each in host["threads"]]
    assert status["awake"] >= 1


def test_the_status_and_the_log_tell_which_ray_is_joined(gateway: Server, http: httpx.Client) -> None:
    running = local_ray.find(gateway.settings.data_dir)
    assert running is not None
    joined = http.get("/status").json()["ray"]
    assert joined.pop("reason").startswith(("it was started for ", "no other Ray was named"))
    owner = Path(running.temp_dir).owner()
    expected = {"address": running.address, "local": True, "owner": owner, "folderProblem": "", "openPorts": []}
    assert joined == expected
    assert f"joined Ray at {running.address} (local, of {owner}), because " in gateway.log.read_text()


# Figures.


def figures(http: httpx.Client) -> dict[str, float]:
    answer = http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = (line.rpartition(" ") for line in answer.text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_figures_count_what_happens(gateway: Server, http: httpx.Client, agency: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    ledger.touch()
    before = figures(http)
    family = [calls(noting(ledger, "one"), ("nothing_like_it", {}), task(say("a part"))), say("done")]
    finished(http, agency, create(http, agency, *family))
    asked = create(
        http, agency, calls(("charge", {"ledger": str(ledger), "what": "x"})), say("charged"), agent="careful"
    )
    finished(http, agency, asked)
    expected = {
        "agency_runs_started_total": 3,
        'agency_runs_ended_total{status="completed"}': 2,
        "agency_turns_total": 4,
        "agency_model_calls_total": 4,
        'agency_tokens_total{direction="in"}': 40,
        'agency_tokens_total{direction="out"}': 20,
        "agency_tool_calls_total": 2,
        "agency_tool_errors_total": 1,
        "agency_approvals_asked_total": 1,
        "agency_subagents_spawned_total": 1,
        "agency_activations_total": 3,
        "agency_model_calls_unpriced_total": 4,
    }
    deadline = time.monotonic() + PATIENCE
    while True:
        now = figures(http)
        grown = {name: now[name] - before[name] for name in expected}
        if all(grown[name] >= least for name, least in expected.items()) and now["agency_approvals_waiting"] >= 1:
            break
        assert time.monotonic() < deadline, grown
    for name in ("agency_hibernations_total", "agency_host_deaths_total", "agency_threads_awake", "agency_feeds_open"):
        assert name in now
    route = 'agency_http_requests_total{method="GET",route="/metrics",status="200"}'
    assert now[route] > before.get(route, 0)
    assert "agency_cost_usd_total" in now and 'agency_cache_tokens_total{use="read"}' in now


async def test_the_lag_of_live_feeds_is_measured(gateway: Server, http: httpx.Client, agency: str) -> None:
    from tests.support.gateway_requests import message, socket_events

    thread = create(http, agency)
    before = figures(http)["agency_feed_lag_seconds_count"]
    async for event in socket_events(gateway, f"/agency/{agency}/agent/{thread}/ws?after=0"):
        if event["type"] == "thread.created":
            http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": message(say("now"))})
        if event["type"] == "agent.completed":
            break
    assert figures(http)["agency_feed_lag_seconds_count"] > before


# Its description.


def test_every_answer_in_the_document_is_described_and_examples_are_right(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            where = (method, path)
            assert operation["summary"], where
            assert "422" not in operation["responses"], where
            for status, response in operation["responses"].items():
                assert response["description"], (where, status)
                if int(status) >= 400:
                    assert list(response["content"]) == ["application/problem+json"], (where, status)
                elif int(status) not in (204, 304):  # which have no body
                    assert response["content"], (where, status)
    for model, example in EXAMPLES.items():
        model.model_validate(example)
        schemas = document["components"]["schemas"]
        assert (schemas.get(model.__name__) or schemas[f"{model.__name__}-Output"])["examples"]
    body = document["components"]["schemas"]["NewThread"]
    assert body["examples"][0]["agentType"] == "support"


CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "response_headers_conformance,unsupported_method,allow_header_conformance"
)


@pytest.mark.timeout(300)  # some thousand requests, on machines that may be slow
@pytest.mark.parametrize("known", [False, True], ids=["unknown names", "names that exist"])
def test_nothing_that_fits_the_document_or_does_not_gets_a_5xx_or_an_undocumented_answer(
    gateway: Server, http: httpx.Client, agency: str, tmp_path: Path, known: bool
) -> None:
    thread = create(http, agency, say("done"))
    finished(http, agency, thread)
    config = tmp_path / "schemathesis.toml"
    daily = {"name": "daily", "agentType": "clerk", "message": "Bake!", "kind": "cron", "cron": "0 6 * * *"}
    schedule = http.post(f"/agency/{agency}/schedules", json=daily).json()["id"]
    ids = {"agency_id": agency, "thread_id": thread, "schedule_id": schedule} if known else {}
    config.write_text("\n".join(["[parameters]", *(f'{name} = "{value}"' for name, value in ids.items()), ""]))
    command = ["--config-file", str(config), "run", f"{gateway.url}/openapi.json", "--checks", CHECKS]
    command += ["--max-examples", "5", "--phases", "examples,coverage,fuzzing", "--generation-deterministic"]
    command += ["--continue-on-failure", "--request-timeout", "30", "--workers", "1"]
    if known:
        command += ["--exclude-method", "DELETE"]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("st")), *command], cwd=tmp_path, capture_output=True, text=True, timeout=280
    )
    http.delete(f"/agency/{agency}")  # with the schedules that were made, of which some are due every second
    assert done.returncode == 0, done.stdout[-6_000:]
    assert "Tested: " in done.stdout


# Its logs.


def lines(*files: Path) -> list[Json]:
    found = (line for file in files for line in file.read_text(errors="replace").splitlines())
    return [json.loads(line) for line in found if line.startswith("{")]


def test_logs_are_lines_of_json_that_name_the_agency_the_thread_and_the_run(
    serve: Serve, http: httpx.Client, agency: str
) -> None:
    server = serve()
    with server.client() as client:
        thread = create(client, agency, say("done"))
        run = finished(client, agency, thread)["runId"]
        client.get("/nowhere")
    eventually_sync(lambda: '"/nowhere"' in server.log.read_text())  # a line is written after its answer has left
    found = [line for line in lines(server.log) if line["event"] == "request"]
    named = [line for line in found if line.get("thread") == thread]
    assert [(line["agency"], line["status"], line["method"]) for line in named] == [(agency, 200, "GET")]
    assert [line["status"] for line in found if line["path"] == "/nowhere"] == [404]
    assert all({"timestamp", "level", "ms"} <= line.keys() for line in found)
    running = local_ray.find(server.settings.data_dir)
    assert running is not None
    hosts = lines(*running.session_dir.glob("logs/worker-*.err"))
    assert [(line["event"], line["agency"], line["run"]) for line in hosts if line.get("thread") == thread] == [
        ("run running", agency, run),
        ("run completed", agency, run),
    ]
