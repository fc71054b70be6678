"""What every route of the gateway asks of its caller, and a request to it that would do something: the table that the
isolation suite (`tests/dashboard/test_isolation.py`) is made of.

It says what must hold, not what does: roles stand here a second time, beside the code, and the suite compares them with
the API's description and with what the gateway does. **A new route needs a line here**, or the suite fails.

Lines stand in the order in which a caller who may everything can make the requests: what deletes comes last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dashboard.gateway.access import Access

Json = Any
Names = Mapping[str, str]
"""What is in an agency that was planted (`planted_agency.py`), by the words that stand in paths."""

OWNED = frozenset(("thread_id", "schedule_id", "key_id", "entry"))
"""The names in paths that mean something in one agency only: in another one there is nothing of that name."""


@dataclass(frozen=True)
class Rule:
    role: Access
    """The least that its caller needs."""
    names: Mapping[str, str] | None = None
    """Which planted thing a name in the path is, if not the one that is called so."""
    query: Callable[[Names], dict[str, str]] | None = None
    body: Callable[[Names], Json] | None = None
    content: bytes | None = None
    """A body that is not JSON."""
    answers: int | None = None
    """Whoever may make the request gets this status; None is any success."""
    proof: int | None = None
    """The request itself has to prove where it comes from. This one does not: whoever makes it gets this status."""
    live: bool = False
    """A WebSocket, or a stream of events for who accepts one: a ticket opens it, and nothing else."""
    moves: bool = False
    """What it says changes by itself."""

    def path(self, template: str, names: Names) -> str:
        """The address of a request to a route."""
        renamed = self.names or {}
        return re.sub(r"\{(\w+)(?::path)?\}", lambda found: names[renamed.get(found[1], found[1])], template)

    def is_let_in(self, status: int) -> bool:
        return 200 <= status < 300 if self.answers is None else status == self.answers


def says(**body: Json) -> Callable[[Names], Json]:
    return lambda names: body


A, T, X = "/agency/{agency_id}", "/agency/{agency_id}/agent/{thread_id}", "/agency/{agency_id}/x/guests"
FILE: Callable[[Names], dict[str, str]] = lambda names: {"path": names["file"]}  # noqa: E731

RULES: dict[tuple[str, str], Rule] = {
    # Pages, which contain nothing of any agency.
    ("GET", "/"): Rule("none"),
    ("GET", "/a/{address:path}"): Rule("none"),
    ("GET", "/cluster"): Rule("none"),
    ("GET", "/docs"): Rule("none"),
    ("GET", "/assets/{name}"): Rule("none", names={"name": "asset"}),
    # The installation.
    ("GET", "/healthz"): Rule("none"),
    ("GET", "/openapi.json"): Rule("any"),
    ("GET", "/extensions"): Rule("any"),
    ("POST", "/tickets"): Rule("any"),
    ("GET", "/agencies"): Rule("any"),
    ("POST", "/agencies"): Rule("owner", body=says(name="another")),
    ("GET", "/status"): Rule("owner"),
    ("GET", "/metrics"): Rule("owner"),
    ("GET", "/logs"): Rule("owner"),
    # Requests that prove themselves.
    ("POST", "/settle/{token}"): Rule("none", names={"token": "guess"}, body=says(paid=7), proof=404),
    ("POST", f"{X}/letter"): Rule("none", body=says(guest="Eve"), proof=401),
    # Looking.
    ("GET", A): Rule("viewer"),
    ("GET", f"{A}/agents"): Rule("viewer"),
    ("GET", f"{A}/approvals"): Rule("viewer"),
    ("GET", f"{A}/blueprints"): Rule("viewer"),
    ("POST", f"{A}/blueprints/resolve"): Rule("viewer", body=lambda names: {"name": names["blueprint"]}),
    ("GET", f"{A}/events"): Rule("viewer", live=True),
    ("GET", f"{A}/policy"): Rule("viewer"),
    ("GET", f"{A}/limits"): Rule("viewer"),
    ("GET", f"{A}/layers"): Rule("admin"),
    ("GET", f"{A}/schedules"): Rule("viewer"),
    ("GET", f"{A}/schedules/{{schedule_id}}"): Rule("viewer"),
    ("GET", f"{A}/schedules/{{schedule_id}}/runs"): Rule("viewer"),
    ("GET", f"{A}/search"): Rule("viewer", query=lambda names: {"q": names["word"]}),
    ("GET", f"{A}/shelf"): Rule("viewer"),
    ("GET", f"{A}/shelf/{{shelf}}"): Rule("viewer"),
    ("GET", f"{A}/shelf/{{shelf}}/{{path}}"): Rule("viewer"),
    ("GET", f"{A}/statistics"): Rule("viewer", query=lambda names: {"by": "day"}, moves=True),
    ("GET", f"{A}/usage"): Rule("viewer"),
    ("GET", T): Rule("viewer"),
    ("GET", f"{T}/call/{{call_id}}"): Rule("viewer"),
    ("GET", f"{T}/events"): Rule("viewer", live=True),
    ("GET", f"{T}/file"): Rule("viewer", query=FILE),
    ("GET", f"{T}/files"): Rule("viewer"),
    ("GET", f"{T}/model-call/{{seq}}"): Rule("operator"),
    ("GET", f"{T}/model-calls"): Rule("viewer"),
    ("GET", f"{T}/run"): Rule("viewer", moves=True),
    ("GET", f"{T}/state"): Rule("viewer"),
    ("GET", f"{T}/traces"): Rule("operator"),
    ("GET", f"{X}/entries"): Rule("viewer"),
    ("GET", f"{X}/summary"): Rule("viewer"),
    ("GET", f"{X}/told/{{one}}/and/{{two}}"): Rule("viewer"),
    ("GET", f"{A}/keys"): Rule("admin"),
    ("GET", f"{A}/keys/{{key_id}}"): Rule("admin"),
    ("GET", f"{A}/providers"): Rule("admin"),
    ("WS", f"{A}/ws"): Rule("viewer", live=True),
    ("WS", T): Rule("viewer", live=True),
    ("WS", f"{T}/ws"): Rule("viewer", live=True),
    ("WS", "/{path:path}"): Rule("none", answers=404),
    # Working.
    ("PATCH", T): Rule("operator", body=lambda names: {"title": names["title"]}),
    ("PATCH", f"{T}/state"): Rule("operator", body=says(state={"todos": []})),
    ("PUT", f"{T}/file"): Rule("operator", query=FILE, content=b"written"),
    ("DELETE", f"{T}/file"): Rule("operator", query=FILE),
    ("POST", f"{T}/fork"): Rule("operator", body=says(afterSeq=1)),
    ("POST", f"{T}/settle"): Rule(
        "operator", names={"thread_id": "paying"}, body=lambda names: {"token": names["token"], "result": "paid"}
    ),
    ("POST", f"{T}/approve"): Rule("operator", names={"thread_id": "waiting"}, body=says(approved=False)),
    ("POST", f"{A}/approvals"): Rule(
        "operator", body=lambda names: {"decisions": {names["approval"]: {"decision": "approve"}}}
    ),
    ("POST", f"{T}/pause"): Rule("operator", answers=409),
    ("POST", f"{T}/resume"): Rule("operator", answers=409),
    ("POST", f"{T}/retry"): Rule("operator", body=says(), answers=409),
    ("POST", f"{T}/limits"): Rule("operator", body=says(tokens=7), answers=409),
    ("POST", f"{T}/cancel"): Rule("operator"),
    ("POST", f"{T}/invoke"): Rule("operator", body=says(messages=[{"role": "user", "content": "[]"}])),
    ("POST", f"{A}/agents"): Rule("operator", body=lambda names: {"agentType": names["blueprint"]}),
    ("PATCH", f"{A}/schedules/{{schedule_id}}"): Rule("operator", body=says(status="paused")),
    ("POST", f"{A}/schedules/{{schedule_id}}/run"): Rule("operator"),
    ("PUT", f"{A}/shelf/{{shelf}}/{{path}}"): Rule("operator", content=b"written"),
    ("DELETE", f"{A}/shelf/{{shelf}}/{{path}}"): Rule("operator"),
    ("POST", f"{X}/blurted"): Rule("operator", body=says(a=1)),
    ("POST", f"{X}/entries"): Rule("operator", body=says(guest="Eve")),
    # Managing.
    ("PATCH", A): Rule("admin", body=says(name="renamed")),
    ("PUT", f"{A}/budget"): Rule("admin", body=says(turns=1_000_000)),
    ("PUT", f"{A}/policy"): Rule("admin", body=says(rules=[])),
    ("PUT", f"{A}/limits"): Rule("admin", body=says(turns=1_000_000)),
    ("POST", f"{A}/blueprints"): Rule("admin", body=says(name="mine", prompt="mine now")),
    ("POST", f"{A}/keys"): Rule("admin", body=says(name="mine", role="viewer")),
    ("POST", f"{A}/schedules"): Rule(
        "admin", body=says(name="mine", agentType="clerk", message="[]", kind="cron", cron="0 6 1 1 *")
    ),
    ("PUT", f"{A}/providers/{{name}}"): Rule(
        "admin", names={"name": "provider"}, body=says(api="openai", baseUrl="https://models.example/v1")
    ),
    # Deleting.
    ("DELETE", f"{A}/blueprints/{{name}}"): Rule("admin", names={"name": "blueprint"}),
    ("DELETE", f"{A}/providers/{{name}}"): Rule("admin", names={"name": "provider"}),
    ("DELETE", f"{A}/schedules/{{schedule_id}}"): Rule("admin"),
    ("DELETE", f"{X}/entries/{{entry}}"): Rule("admin"),
    ("DELETE", f"{A}/keys/{{key_id}}"): Rule("admin"),
    ("DELETE", T): Rule("admin"),
    ("DELETE", A): Rule("admin"),
}
