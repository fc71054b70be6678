"""What answers look like, for the OpenAPI document. Requests have their examples where they are defined."""

from __future__ import annotations

from typing import Any

from agency.api.bodies import (
    AgencyEventPage,
    AgencyPage,
    ApprovalPage,
    BlueprintPage,
    DecisionResults,
    EventPage,
    FileList,
    KeyPage,
    ProviderPage,
    StateAndRun,
    ThreadPage,
    Ticket,
)
from agency.api.tenancy import AgencyInfo, AgencyUsage, BlueprintInfo, Budget, NewKey, ProviderInfo, ThreadSummary
from agency.approvals.rules import Policy
from agency.metadata import ThreadMetadata
from agency.models.providers.entry import Provider
from agency.schedules.schedule import ScheduleInfo, SchedulePage, ScheduleRun, ScheduleRunPage
from agency.shelves.interface import ShelfEntry, ShelfList, ShelfPage
from agency.thread.views import Accepted, RunEnvelope
from agency.wire import Wire

_AT = "2026-11-16T09:30:00.000Z"
_BUDGET = {"turns": None, "timeMs": None, "tokens": None, "costUsd": 20.0}
_AGENCY = {"id": "agc_85a5f873f4885cc0", "name": "Bakery", "createdAt": _AT, "budget": _BUDGET}
_THREAD = {
    "id": "thr_8a60953111bf4962a7f7",
    "agentType": "support",
    "createdAt": _AT,
    "agencyId": _AGENCY["id"],
    "request": {"userAgent": "curl/8.5", "ip": "127.0.0.1", "referrer": None, "origin": None},
    "parent": None,
    "forkedFrom": None,
}
_TOKENS = {"input": 812, "output": 64, "cachedInput": 512, "cacheWrite": 0, "reasoning": 0}
_NO_TOKENS = dict.fromkeys(_TOKENS, 0)
_USED = {"tokensUsed": _TOKENS, "costUsd": 0.0021}
_NOTHING = {"tokensUsed": _NO_TOKENS, "costUsd": 0.0}
_SUMMARY = {
    **_THREAD,
    "status": "completed",
    "reason": None,
    "seq": 14,
    "updatedAt": _AT,
    **_USED,
    "children": _NOTHING,
}
_BLUEPRINT = {
    "name": "support",
    "description": "Answers customers.",
    "prompt": "You answer customers of a bakery.",
    "source": "static",
}
_EVENT = {
    "threadId": _THREAD["id"],
    "seq": 3,
    "ts": _AT,
    "type": "run.started",
    "data": {"runId": f"{_THREAD['id']}.1"},
}
_RUN = {
    "runId": f"{_THREAD['id']}.1",
    "status": "completed",
    "data": "Order 7 has shipped.",
    "meta": {
        "threadId": _THREAD["id"],
        "agentType": "support",
        "turns": 2,
        **_USED,
        "children": _NOTHING,
        "model": "anthropic:claude-sonnet-5",
        "attempts": [
            {
                "model": "openai:gpt-5.4-mini",
                "turn": 1,
                "code": "ERR_OVERLOADED",
                "message": "openai is overloaded",
                "requestId": "req_7",
                "at": _AT,
            }
        ],
        "durationMs": 1840,
        "pauseReason": None,
        "pendingToolCalls": [],
    },
    "errors": [],
    "timestamp": 1794821400000,
}
_CALL = {"id": "call_1", "name": "refund", "args": {"order_id": "7", "cents": 500}, "risk": "high", "note": ""}
_KEY = {"id": "key_128d690c45580d43", "name": "the shop's web server", "role": "operator", "createdAt": _AT}
_STATE = {
    "state": {
        "messages": [{"role": "user", "content": "Where is order 7?"}],
        "tools": [{"name": "order_status", "description": "Look up an order.", "parameters": {"type": "object"}}],
        "thread": _THREAD,
        "threadId": _THREAD["id"],
        "parent": None,
        "agentType": "support",
        "model": "openai:gpt-5.4-mini",
        "todos": [],
        "files": {},
        "subagents": [],
    },
    "run": {"runId": f"{_THREAD['id']}.1", "status": "running", "step": 1, "reason": None},
}
_PROVIDER = {
    "api": "openai",
    "baseUrl": "https://openrouter.ai/api/v1",
    "key": "env:AGENCY_KEY_OPENROUTER",
    "pricedAs": "openrouter",
}
_OWN_PROVIDER = {
    "name": "openrouter",
    "source": "agency",
    "entry": _PROVIDER,
    "setBy": "agency",
    "createdAt": _AT,
    "updatedAt": _AT,
}
_USAGE = {
    "turns": 417,
    "activeMs": 1_260_000,
    "tokensUsed": {"input": 812_000, "output": 64_000, "cachedInput": 512_000, "cacheWrite": 0, "reasoning": 0},
    "costUsd": 3.41,
    "children": {"turns": 0, "activeMs": 0, **_NOTHING},
    "threads": 85,
    "budget": _BUDGET,
    "exhausted": None,
}
_APPROVAL_ID = f"{_THREAD['id']}:9a2c61f07b3e5d48c1aa"
_APPROVAL = {
    "threadId": _THREAD["id"],
    "agentType": "billing",
    "runId": _RUN["runId"],
    "since": _AT,
    "kind": "calls",
    "parentId": None,
    "calls": [{**_CALL, "kind": "approval", "approvalId": _APPROVAL_ID, "expiresAt": None, "onTimeout": "deny"}],
    "code": None,
}
_LATE = {"approvalId": _APPROVAL_ID, "code": "ERR_WRONG_STATE", "message": "it was decided already"}
_POLICY = {
    "rules": [
        {"tool": "refund", "when": {"properties": {"cents": {"maximum": 500}}}, "risk": "low"},
        {"tool": "refund", "risk": "high"},
    ],
    "timeoutMs": 3_600_000,
    "onTimeout": "deny",
}
_SHELF_ENTRY = {
    "shelf": "notes",
    "path": "recipes/rye.md",
    "version": "17",
    "size": 2048,
    "createdAt": _AT,
    "updatedAt": _AT,
}
_SCHEDULE = {
    "id": "sch_0d4f4a3c5b8a91e2",
    "name": "the morning's orders",
    "agentType": "support",
    "message": "Go through the orders of last night.",
    "kind": "cron",
    "at": None,
    "everyMs": None,
    "cron": "0 6 * * 1-6",
    "timezone": "Europe/Berlin",
    "overlap": "skip",
    "catchUp": "one",
    "limits": None,
    "status": "active",
    "nextAt": "2026-11-17T05:00:00.000Z",
    "createdAt": _AT,
    "updatedAt": _AT,
}
_SCHEDULE_RUN = {
    "id": "srn_5f0e2c31d9b87a6402aa",
    "scheduleId": _SCHEDULE["id"],
    "dueAt": "2026-11-16T05:00:00.000Z",
    "startedAt": "2026-11-16T05:00:00.012Z",
    "endedAt": "2026-11-16T05:02:41.503Z",
    "threadId": "thr_5f0e2c31d9b87a6402aa",
    "status": "completed",
    "by": "schedule",
    "error": None,
    "missedSince": None,
}
_FILE = {"path": "/report.md", "size": 1840}

EXAMPLES: dict[type[Wire], dict[str, Any]] = {
    Accepted: {"runId": _RUN["runId"], "status": "running"},
    AgencyEventPage: {"events": [{**_EVENT, "cursor": 117}], "next": None},
    AgencyInfo: _AGENCY,
    AgencyUsage: _USAGE,
    AgencyPage: {"agencies": [_AGENCY], "next": None},
    DecisionResults: {"answered": [], "refused": [_LATE]},
    ApprovalPage: {"approvals": [_APPROVAL], "next": None},
    BlueprintInfo: _BLUEPRINT,
    Budget: _BUDGET,
    BlueprintPage: {"blueprints": [_BLUEPRINT], "next": None},
    EventPage: {"events": [_EVENT], "next": None},
    FileList: {"files": [_FILE]},
    KeyPage: {"keys": [_KEY], "next": None},
    Policy: _POLICY,
    NewKey: {**_KEY, "key": f"agk_{_AGENCY['id']}.{_KEY['id']}.{'x' * 43}"},
    Provider: _PROVIDER,
    ProviderInfo: _OWN_PROVIDER,
    ProviderPage: {"providers": [_OWN_PROVIDER, {"name": "demo", "source": "code"}], "next": None},
    RunEnvelope: _RUN,
    ScheduleInfo: _SCHEDULE,
    SchedulePage: {"schedules": [_SCHEDULE], "next": None},
    ScheduleRun: _SCHEDULE_RUN,
    ScheduleRunPage: {"runs": [_SCHEDULE_RUN], "next": None},
    ShelfEntry: _SHELF_ENTRY,
    ShelfList: {"shelves": [{"name": "notes", "entries": 12, "size": 40_960}]},
    ShelfPage: {"entries": [_SHELF_ENTRY], "next": None},
    StateAndRun: _STATE,
    ThreadMetadata: _THREAD,
    ThreadPage: {"agents": [_SUMMARY], "next": None},
    ThreadSummary: _SUMMARY,
    Ticket: {"ticket": "6b2zJc4TQ7MDZ1QD0-SozWCfEXu_WqREszctxQXkcK4", "expiresAt": _AT},
}
