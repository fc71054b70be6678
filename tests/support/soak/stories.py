"""What tenants of a soak do again and again. Each story makes something, sees it to its end, checks that what was
acknowledged happened, and happened once, and deletes it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.support.scripted_system import calls, charging, noting, say, script, task
from tests.support.soak.tenant import PATIENCE, Json, Refused, Tenant, fresh

Story = Callable[[Tenant], Awaitable[None]]


async def check_effects(tenant: Tenant, thread: str, ledger: Path, *charges: str) -> None:
    """That each charge was made once. One in doubt, because its process died in it, may have been made or not: the
    thread says that it was taken up again."""
    lines = [line.split() for line in ledger.read_text().splitlines()]
    made = Counter(line[0] for line in lines if line[0].startswith("charge:"))
    keys: dict[str, set[str]] = {}
    for line in lines:
        keys.setdefault(line[0], set()).add(line[1])
    tenant.findings.counts["effects"] += len(keys)
    tenant.findings.expect(all(len(found) == 1 for found in keys.values()), f"one call had several keys: {keys}")
    tenant.findings.expect(max(made.values(), default=1) == 1, f"charged twice: {made}")
    if missing := {f"charge:{charge}" for charge in charges} - {*made}:
        events = (await tenant.ask("GET", tenant.path(thread, "/events"), role="viewer"))["events"]
        recovered = any(event["type"] == "run.recovered" for event in events)
        tenant.findings.expect(recovered, f"never charged: {missing}")
    ledger.unlink()


async def works_with_tools(tenant: Tenant) -> None:
    ledger, word = tenant.ledger(), fresh()
    work = (
        calls(noting(ledger, "a", 0.1), noting(ledger, "b")),
        calls(charging(ledger, "x")),
        calls(charging(ledger, "y")),
    )
    thread = await tenant.create(*work, say(word))
    await tenant.must_say(thread, word)
    await check_effects(tenant, thread, ledger, "x", "y")
    await tenant.delete(thread)


async def is_invoked_again_and_again(tenant: Tenant) -> None:
    ledger, thread = tenant.ledger(), await tenant.create()
    for turn in range(3):
        word, key = fresh(), fresh()
        lines = calls(charging(ledger, f"{turn}")), say(word)
        first = await tenant.invoke(thread, *lines, key=key)
        again = await tenant.invoke(thread, *lines, key=key)
        tenant.findings.expect(first["runId"] == again["runId"], f"one message became two runs: {first}, {again}")
        await tenant.must_say(thread, word)
    await check_effects(tenant, thread, ledger, "0", "1", "2")
    await tenant.delete(thread)


async def asks_a_person(tenant: Tenant) -> None:
    ledger, word = tenant.ledger(), fresh()
    thread = await tenant.create(calls(charging(ledger, "x")), say(word), agent="careful")
    run = await tenant.ended(thread)
    tenant.findings.expect(run["status"] == "paused", f"it should wait for a person: {run}")
    tenant.findings.expect(not ledger.read_text(), "it was charged before a person had said so")
    (call,) = run["meta"]["pendingToolCalls"]
    decision = {"decisions": {call["approvalId"]: {"decision": "approve"}}, "idempotencyKey": fresh()}
    await tenant.ask("POST", f"/agency/{tenant.agency}/approvals", decision)
    await tenant.must_say(thread, word)
    await check_effects(tenant, thread, ledger, "x")
    await tenant.delete(thread)


async def has_a_child(tenant: Tenant) -> None:
    ledger, word = tenant.ledger(), fresh()
    thread = await tenant.create(calls(task(calls(charging(ledger, "x")), say("done"))), say(word))
    await tenant.must_say(thread, word)
    keys = [line.split()[0] for line in ledger.read_text().splitlines()]
    tenant.findings.expect(len(keys) <= 1, f"the child charged twice: {keys}")
    ledger.unlink()
    await tenant.delete(thread)


async def is_forked(tenant: Tenant) -> None:
    word = fresh()
    thread = await tenant.create(say(word))
    await tenant.must_say(thread, word)
    body = {"idempotencyKey": fresh(), "messages": [{"role": "user", "content": script(say(f"{word} again"))}]}
    fork = (await tenant.ask("POST", tenant.path(thread, "/fork"), body))["id"]
    await tenant.must_say(fork, f"{word} again")
    await tenant.delete(fork)
    await tenant.delete(thread)


async def keeps_files(tenant: Tenant) -> None:
    word, thread = fresh(), await tenant.create()
    await tenant.ask("PUT", tenant.path(thread, "/file"), content=word.encode(), path="/a.txt")
    found = await tenant.ask("GET", tenant.path(thread, "/file"), role="viewer", path="/a.txt")
    tenant.findings.expect(found == word, f"a file was written as {word!r} and read as {found!r:.100}")
    shelf = f"/agency/{tenant.agency}/shelf/notes/{word}.txt"
    await tenant.ask("PUT", shelf, content=word.encode(), headers={"Idempotency-Key": fresh()})
    found = await tenant.ask("GET", shelf, role="viewer")
    tenant.findings.expect(found == word, f"an entry was written as {word!r} and read as {found!r:.100}")
    await tenant.ask("DELETE", shelf, repeated=(404,))
    await tenant.delete(thread)


async def is_scheduled(tenant: Tenant) -> None:
    schedules, key = f"/agency/{tenant.agency}/schedules", fresh()
    body = {"name": key, "agentType": "clerk", "message": script(say("done")), "kind": "interval", "everyMs": 1_000}
    made = (await tenant.ask("POST", schedules, {**body, "idempotencyKey": key}, role="admin"))["id"]
    deadline, done = time.monotonic() + PATIENCE, 0
    while done < 2 and time.monotonic() < deadline:
        runs = (await tenant.ask("GET", f"{schedules}/{made}/runs", role="viewer"))["runs"]
        done = sum(run["status"] == "completed" for run in runs)
        await asyncio.sleep(0.5)
    tenant.findings.expect(done >= 2, "a schedule of every second has not run twice")
    due = [run["dueAt"] for run in runs]
    tenant.findings.expect(len(due) == len({*due}), f"one time of a schedule had two runs: {due}")
    await tenant.ask("DELETE", f"{schedules}/{made}", role="admin", repeated=(404,))


async def is_followed(tenant: Tenant) -> None:
    thread = await tenant.create(say("on and on", words=20, delay=1.0))
    events, seqs = await asyncio.gather(tenant.follow(thread), tenant.stream(thread))
    for numbers in ([event["seq"] for event in events], seqs):
        tenant.findings.expect(numbers == [*range(1, len(numbers) + 1)], f"events are missing or doubled: {numbers}")
    await tenant.delete(thread)


async def is_looked_at(tenant: Tenant) -> None:
    at, word = f"/agency/{tenant.agency}", fresh()
    thread = await tenant.create(say(word))
    await tenant.must_say(thread, word)
    found: Json = None
    for path in ("", "/agents", "/approvals", "/usage", "/blueprints", "/schedules", "/shelf", "/policy"):
        found = await tenant.ask("GET", f"{at}{path}", role="viewer")
    await tenant.ask("GET", f"{at}/statistics", role="viewer", by="hour")
    found = await tenant.ask("GET", f"{at}/search", role="viewer", q=word)
    tenant.findings.expect([hit["threadId"] for hit in found["hits"]] == [thread], f"{word} was not found: {found}")
    await tenant.ask("GET", tenant.path(thread, "/state"), role="viewer")
    await tenant.delete(thread)


STORIES: tuple[Story, ...] = (
    works_with_tools,
    is_invoked_again_and_again,
    asks_a_person,
    has_a_child,
    is_forked,
    keeps_files,
    is_scheduled,
    is_followed,
    is_looked_at,
)


async def tell(tenant: Tenant, story: Story) -> None:
    """One story, whatever comes of it."""
    try:
        await story(tenant)
        tenant.findings.count(f"story {story.__name__}")
    except Refused:
        pass
    except TimeoutError:
        tenant.findings.expect(False, f"{story.__name__} did not end in time")
    except Exception as error:
        tenant.findings.expect(False, f"{story.__name__} met an answer that it cannot read: {error!r}")
