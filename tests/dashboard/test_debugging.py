"""What a person who looks for a defect gets from the gateway: tracebacks, output, model calls, the server's log."""

from __future__ import annotations

import httpx

from tests.support.gateway_requests import Json, assert_problem, create, finished, stored
from tests.support.gateways import Server
from tests.support.scripted_system import calls, say
from tests.support.waiting import eventually_sync

WHERE = {"stumble": "c0.0.0", "stumble_in_a_task": "c0.0.1", "consult": "c0.1.0"}


def key_of(http: httpx.Client, agency: str, role: str) -> str:
    return str(http.post(f"/agency/{agency}/keys", json={"name": role, "role": role}).json()["key"])


def test_defects_are_found_by_operators_and_by_no_one_else(gateway: Server, http: httpx.Client, agency: str) -> None:
    stumbling = calls(("stumble", {"what": "left"}), ("stumble_in_a_task", {"what": "right"}))
    asking = calls(("consult", {"question": '[{"text": "aside", "delay": 0}]'}))
    thread = create(http, agency, stumbling, asking, say("done"))
    assert finished(http, agency, thread)["status"] == "completed"
    at = f"/agency/{agency}/agent/{thread}"

    # With the call: what it raised and printed, in a worker thread and in a Ray task.
    for name, what in (("stumble", "left"), ("stumble_in_a_task", "right")):
        (trace,) = http.get(f"{at}/call/{WHERE[name]}").json()["traces"]
        assert trace["traceback"].endswith(f"LookupError: no {what}\n")
        assert "in _stumble" in trace["traceback"] and "/actors/" not in trace["traceback"]
        assert trace["output"] == f"printed by {what}\nWARNING shop: logged by {what}\n"
    listed = http.get(f"{at}/traces").json()["traces"]
    assert [each["callId"] for each in listed] == [WHERE["stumble"], WHERE["stumble_in_a_task"]]
    events = stored(http, agency, thread)
    assert [events[each["seq"] - 1]["type"] for each in listed] == ["tool.error"] * 2
    assert "Traceback" not in str(events) and "printed by" not in str(events)

    # The model calls, with what was sent.
    shown = http.get(f"{at}/model-calls").json()["modelCalls"]
    assert [each["by"] for each in shown] == [None, None, "consult", None]
    first, _, aside, last = (http.get(f"{at}/model-call/{each['seq']}").json() for each in shown)
    assert first["request"]["messages"][0]["role"] == "user"
    assert (first["usage"]["input"], first["usage"]["output"]) == (10, 5)
    assert {part["by"] for part in first["request"]["prompt"]} >= {None, "planning"}
    assert "stumble" in [tool["name"] for tool in first["request"]["tools"]]
    assert (aside["callId"], aside["reply"]["content"], last["reply"]["content"]) == (WHERE["consult"], "aside", "done")
    assert_problem(http.get(f"{at}/model-call/1"), 404, "ERR_NOT_FOUND")

    # Roles.
    for role, sees in (("viewer", False), ("operator", True), ("admin", True)):
        with gateway.client(Authorization=f"Bearer {key_of(http, agency, role)}") as holder:
            call = holder.get(f"{at}/call/{WHERE['stumble']}").json()
            assert (call["traces"] is not None) == sees and "no left" in call["error"]
            assert holder.get(f"{at}/model-calls").status_code == 200
            for path in (f"{at}/traces", f"{at}/model-call/{shown[0]['seq']}"):
                answer = holder.get(path)
                if sees:
                    assert answer.status_code == 200
                else:
                    assert_problem(answer, 403, "ERR_FORBIDDEN")
            assert_problem(holder.get("/logs"), 403, "ERR_FORBIDDEN")

    # The server's log, and what `agency serve` writes.
    def logged() -> list[Json]:
        return [each for each in http.get("/logs").json()["lines"] if each["thread"] == thread]

    def whole() -> bool:
        return sum(each["exception"] is not None for each in logged()) >= 2

    eventually_sync(whole)
    lines = {(each["event"], each["call"]) for each in logged()}
    for name, what in (("stumble", "left"), ("stumble_in_a_task", "right")):
        assert (f"printed by {what}", WHERE[name]) in lines
        (failed,) = [each for each in logged() if f"tool {name} failed" in each["event"]]
        assert failed["level"] == "error" and f"no {what}" in failed["exception"]
    eventually_sync(lambda: all(f"printed by {what}" in gateway.log.read_text() for what in ("left", "right")))
    assert "in _stumble" in gateway.log.read_text() and WHERE["stumble"] in gateway.log.read_text()
