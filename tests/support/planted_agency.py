"""An agency with something of every kind in it, and in each of those a text that occurs nowhere else: what must not be
in any answer to another tenant."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from dashboard.gateway.routes.pages import DIST
from tests.support.gateway_requests import Json, create, finished, key, stored
from tests.support.scripted_system import calls, say
from tests.support.waiting import eventually_sync

ROLES = ("viewer", "operator", "admin")


@dataclass
class PlantedAgency:
    id: str
    word: str
    """The first word of each of its marks."""
    marks: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    """Its id and those of what is in it, by the words in paths of `route_rules`."""
    keys: dict[str, str] = field(default_factory=dict)
    """A key of each role, and one that was revoked."""

    def mark(self, what: str) -> str:
        made = f"{self.word}-{what}"
        self.marks.add(made)
        return made

    def of(self, agency: str) -> dict[str, str]:
        """The names of what is here, in the address of another agency."""
        return {**self.names, "agency_id": agency}

    def told(self, answer: str) -> set[str]:
        """The marks that an answer contains."""
        return {mark for mark in self.marks if mark in answer}


def plant(owner: httpx.Client, ledger: Path) -> PlantedAgency:
    """Make an agency with something of every kind in it. Its tools note their tokens in a file."""
    word = f"zq{secrets.token_hex(5)}"
    planted = PlantedAgency(made(owner.post("/agencies", json={"name": f"{word}-agency"}))["id"], word)
    planted.mark("agency")
    at = f"/agency/{planted.id}"
    planted.names |= {"agency_id": planted.id, "word": word, "address": planted.id, "guess": "agc.thr.guess"}
    planted.names |= {"asset": next(path.name for path in (DIST / "assets").iterdir()), "one": "1", "two": "2"}
    _plant_settings(owner, at, planted)
    _plant_entries(owner, at, planted)
    _plant_threads(owner, at, planted, ledger)
    return planted


def _plant_settings(owner: httpx.Client, at: str, planted: PlantedAgency) -> None:
    mark, names = planted.mark, planted.names
    for role in ROLES:
        planted.keys[role] = key(owner, planted.id, role, mark(f"key-{role}"))["key"]
    gone = key(owner, planted.id, "admin", "revoked")
    planted.keys["revoked"] = gone["key"]
    made(owner.delete(f"{at}/keys/{gone['id']}"))
    names["key_id"] = key(owner, planted.id, "viewer", mark("key"))["id"]
    names["blueprint"], names["provider"] = mark("blueprint"), mark("provider")
    blueprint = {"name": names["blueprint"], "prompt": mark("prompt"), "description": mark("description")}
    made(owner.post(f"{at}/blueprints", json=blueprint))
    entry = {"api": "openai", "baseUrl": f"https://{mark('address')}.example/v1"}
    made(owner.put(f"{at}/providers/{names['provider']}", json=entry))
    made(owner.put(f"{at}/policy", json={"rules": [{"tool": mark("policy"), "risk": "high"}]}))
    yearly = {"name": mark("schedule"), "agentType": names["blueprint"], "message": mark("errand"), "kind": "cron"}
    names["schedule_id"] = made(owner.post(f"{at}/schedules", json={**yearly, "cron": "0 6 1 1 *"}))["id"]


def _plant_entries(owner: httpx.Client, at: str, planted: PlantedAgency) -> None:
    mark, names = planted.mark, planted.names
    names["shelf"], names["path"] = mark("shelf"), f"{mark('entry')}.txt"
    made(owner.put(f"{at}/shelf/{names['shelf']}/{names['path']}", content=mark("shelved").encode()))
    guest = {"guest": mark("guest"), "says": mark("says")}
    names["entry"] = made(owner.post(f"{at}/x/guests/entries", json=guest))["entry"]


def _plant_threads(owner: httpx.Client, at: str, planted: PlantedAgency, ledger: Path) -> None:
    mark, names = planted.mark, planted.names
    names["thread_id"] = create(owner, planted.id, calls(("stumble", {"what": mark("tool")})), say(mark("reply")))
    asks = calls(("charge", {"ledger": str(ledger), "what": mark("wanted")}))
    names["waiting"] = create(owner, planted.id, asks, say("done"), agent="careful")
    tokens = ledger.with_suffix(".tokens")
    names["paying"] = create(owner, planted.id, calls(("await_payment", {"ledger": str(tokens)})), say("done"))
    names["token"] = eventually_sync(lambda: tokens.read_text().strip() if tokens.exists() else "", 60)
    assert finished(owner, planted.id, names["waiting"])["status"] == "paused"
    (call,) = (each for one in owner.get(f"{at}/approvals").json()["approvals"] for each in one["calls"])
    names["approval"] = call["approvalId"]
    assert finished(owner, planted.id, names["thread_id"])["status"] == "completed"
    events = stored(owner, planted.id, names["thread_id"])
    names["seq"] = next(str(event["seq"]) for event in events if event["type"] == "model.started")
    names["call_id"] = next(str(event["data"]["callId"]) for event in events if event["type"] == "tool.started")
    names["title"], names["file"] = mark("title"), f"/{mark('file')}.txt"
    thread = f"{at}/agent/{names['thread_id']}"
    made(owner.patch(thread, json={"title": names["title"]}))
    made(owner.put(f"{thread}/file", params={"path": names["file"]}, content=mark("written").encode()))
    eventually_sync(lambda: names["title"] in owner.get(f"{at}/agents").text)


def made(answer: httpx.Response) -> Json:
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None
