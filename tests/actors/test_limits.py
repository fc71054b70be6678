"""What an agency may store: each limit by its setting, in words that name it; what is there already stays usable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.agency import catalogue
from agency.approvals.rules import Policy, Rule
from agency.children.parcels import Spawn
from agency.define.blueprint import Blueprint
from agency.errors import AgencyError, TooLarge, TooMany
from agency.messages import Message
from agency.metadata import ParentInfo, RequestContext
from agency.models.providers.entry import Provider
from tests.support.lone_agency import LoneAgency


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoneAgency]:
    opened = LoneAgency(tmp_path, monkeypatch)
    yield opened
    opened.agency.close()


def blueprint(name: str = "mine", **more: Any) -> dict[str, Any]:
    return {"name": name, "prompt": "You bake.", **more}


def nested(depth: int) -> Any:
    value: Any = 7
    for _ in range(depth):
        value = [value]
    return value


def entry(**more: Any) -> Provider:
    return Provider.model_validate({"api": "openai", "baseUrl": "http://models:1", **more})


async def listed(office: LoneAgency) -> list[Blueprint]:
    found: list[Blueprint] = []
    after: str | None = ""
    while after is not None:
        page = await office.call("blueprints", after)
        found += page.blueprints
        after = page.next
    return found


TOO_MUCH = [
    ("put_blueprint", (blueprint(prompt="x" * 21),), {"prompt_chars": 20}, TooLarge, "21 characters; 20 are accepted"),
    ("put_blueprint", (blueprint(tags=["a", "b"]),), {"blueprint_names": 1}, TooLarge, "tags of .* are 2 names; 1"),
    ("put_blueprint", (blueprint(tools=["a", "b"]),), {"blueprint_names": 1}, TooLarge, "tools of .* are 2 names; 1"),
    (
        "put_blueprint",
        (blueprint(config={"padding": ["x" * 3_000]}),),
        {"blueprint_bytes": 3_000},
        TooLarge,
        "'mine' has 3[0-9]{3} bytes; 3000 are accepted",
    ),
    ("put_provider", ("mine", entry(body={"x": "y" * 900})), {"provider_bytes": 900}, TooLarge, "'mine' has 1[0-9]{3}"),
    (
        "set_policy",
        (Policy(rules=(Rule(tool="x" * 60, risk="high"),)),),
        {"policy_bytes": 50},
        TooLarge,
        "policy has",
    ),
    (
        "put_blueprint",
        (blueprint(config={"none": [*range(1_000)]}),),
        {"blueprint_values": 900},
        TooLarge,
        "has at least 1[0-9]{3} values; 900",
    ),
    (
        "put_blueprint",
        (blueprint(config={"subagents": {"subagents": [blueprint(f"b{n}") for n in range(9)]}}),),
        {"blueprint_names": 8},
        TooLarge,
        "defines at least 9 agents; 8",
    ),
    (
        "put_blueprint",
        (blueprint(config={"none": nested(30)}),),
        {"blueprint_depth": 20},
        TooLarge,
        "at least 21 deep; 20",
    ),
    (
        "create_schedule",
        ("s", {"name": "s", "agentType": "clerk", "message": "x" * 900, "kind": "interval", "everyMs": 3_600_000}),
        {"schedule_bytes": 900},
        TooLarge,
        "the schedule has 1[0-9]{3} bytes",
    ),
    (
        "create_thread",
        ("clerk", (Message(role="user", content="x" * 900),)),
        {"creation_bytes": 900},
        TooLarge,
        "begins with has [0-9]+ bytes; 900 are accepted",
    ),
]


@pytest.mark.parametrize(("method", "args", "limit", "kind", "said"), TOO_MUCH, ids=lambda each: str(each)[:30])
async def test_what_is_too_large_is_refused_by_a_text_that_names_the_setting(
    office: LoneAgency, method: str, args: tuple[Any, ...], limit: dict[str, int], kind: type[AgencyError], said: str
) -> None:
    ((setting, most),) = limit.items()
    office.allow(**limit)
    with pytest.raises(kind, match=said) as refused:
        await office.call(method, *args)
    assert f"(AGENCY_{setting.upper()})" in str(refused.value)
    assert str(most) in str(refused.value)
    office.allow(**{setting: 1_000_000})
    await office.call(method, *args)


@pytest.mark.parametrize("value", [[0] * 250_000, nested(100), {str(n): {} for n in range(125_000)}])
async def test_a_blueprint_of_very_many_values_is_refused_before_anything_is_made_of_it(
    office: LoneAgency, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    def made(*given: object) -> None:
        raise AssertionError("it was looked into")

    monkeypatch.setattr(catalogue, "_made_of", made)
    for method in ("put_blueprint", "resolve_blueprint"):
        with pytest.raises(TooLarge, match=r"AGENCY_BLUEPRINT_(VALUES|DEPTH)"):
            await office.call(method, blueprint(config={"none": value}))


async def test_what_a_thread_gives_its_child_is_measured_unless_it_is_known(office: LoneAgency) -> None:
    await office.call("put_blueprint", blueprint(config={"none": nested(30)}))
    await office.call("create_thread", "mine", thread_id="boss")
    office.allow(blueprint_depth=20)

    def order(to: str, **own: Any) -> Spawn:
        parent = ParentInfo(thread_id="boss", token=to, depth=1)
        request = RequestContext()
        fields = blueprint(**own)
        return Spawn(
            to=to,
            agent_type="mine",
            message="Bake!",
            agency_id="bakery",
            request=request,
            parent=parent,
            blueprint=fields,
        )

    await office.call("spawn", order("copy", config={"none": nested(30)}))
    with pytest.raises(TooLarge, match="AGENCY_BLUEPRINT_DEPTH"):
        await office.call("spawn", order("deep", config={"none": nested(31)}))
    await office.call("spawn", order("flat", config={"none": nested(3)}))
    assert sorted(office.made) == ["boss", "copy", "flat"]


async def test_one_too_many_is_refused_and_what_is_there_can_be_changed(office: LoneAgency) -> None:
    office.allow(blueprints_most=2, providers_most=1, keys_most=1)
    for name in ("one", "two"):
        await office.call("put_blueprint", blueprint(name))
    with pytest.raises(TooMany, match=r"has 2 blueprints of its own, and 2 are accepted \(AGENCY_BLUEPRINTS_MOST\)"):
        await office.call("put_blueprint", blueprint("three"))
    await office.call("put_blueprint", blueprint("two", prompt="You bake well."))
    await office.call("delete_blueprint", "one")
    await office.call("put_blueprint", blueprint("three"))

    await office.call("put_provider", "mine", entry())
    with pytest.raises(TooMany, match="AGENCY_PROVIDERS_MOST"):
        await office.call("put_provider", "more", entry())
    await office.call("put_provider", "mine", entry(baseUrl="http://models:2"))

    await office.call("add_key", "key_1", "one", "viewer", "d")
    await office.call("add_key", "key_1", "one", "viewer", "d")  # which is that one
    with pytest.raises(TooMany, match="AGENCY_KEYS_MOST"):
        await office.call("add_key", "key_2", "two", "viewer", "d")


async def test_all_blueprints_together_have_a_limit_and_one_may_become_smaller(
    office: LoneAgency,
) -> None:
    office.allow(catalogue_bytes=10_000)
    for n in range(3):
        await office.call("put_blueprint", blueprint(f"b{n}", description="d" * 2_500))
    with pytest.raises(TooLarge, match=r"would have 1[0-9]{4} bytes; 10000 are accepted \(AGENCY_CATALOGUE_BYTES\)"):
        await office.call("put_blueprint", blueprint("b3", description="d" * 2_500))
    office.allow(catalogue_bytes=100)
    await office.call("put_blueprint", blueprint("b0", description="d"))


async def test_what_was_stored_before_a_limit_can_be_read_used_disabled_and_deleted(office: LoneAgency) -> None:
    await office.call("put_blueprint", blueprint("old", prompt="x" * 5_000))
    office.allow(prompt_chars=100, blueprint_bytes=200, blueprints_most=1, catalogue_bytes=100)
    assert "old" in [each.name for each in await listed(office)]
    made = await office.call("create_thread", "old", (Message(role="user", content="hello"),))
    assert office.made[made.id].blueprint.prompt == "x" * 5_000
    with pytest.raises(TooLarge):
        await office.call("put_blueprint", {"name": "old", "description": "more"})
    await office.call("delete_blueprint", "old")


async def test_why_a_blueprint_would_be_refused_is_told_without_storing_it(office: LoneAgency) -> None:
    office.allow(prompt_chars=10)
    found = await office.call("resolve_blueprint", blueprint(prompt="x" * 11))
    assert "AGENCY_PROMPT_CHARS" in found.problem
    assert not (found.tools or found.middleware), "what is too large is not looked into"


async def test_sections_that_have_no_effect_are_named_up_to_a_number(office: LoneAgency) -> None:
    made = await office.call("put_blueprint", blueprint(config={f"none{n}": {} for n in range(500)}))
    assert len(made.warnings) == 21
    assert made.warnings[-1] == "480 more sections of config have no effect"


@pytest.mark.parametrize("page_bytes", [1, 700, 5_000, 1_000_000])
@pytest.mark.parametrize("limit", [1, 3, 1_000])
async def test_pages_end_by_their_bytes_and_together_they_are_the_list(
    office: LoneAgency, page_bytes: int, limit: int
) -> None:
    coded = {each.name for each in await listed(office)}
    named = {f"n{n:02}" for n in range(12)} | {"clerk"}
    for name in sorted(named):
        await office.call("put_blueprint", blueprint(name, description="d" * 300))
        await office.call("put_provider", name, entry())
        await office.call("add_key", f"key_{name}", name, "viewer", "d")
        await office.schedule(f"s-{name}", name=name, message="Bake! " * 50)
        await office.call("create_thread", "clerk")
    office.allow(page_bytes=page_bytes)

    async def pages(method: str, part: str, begin: str | int) -> list[Any]:
        found: list[Any] = []
        after: Any = begin
        while after is not None:
            page = await office.call(method, after, limit)
            assert 1 <= len(getattr(page, part)) <= limit
            found += getattr(page, part)
            after = page.next
        return found

    assert [each.name for each in await pages("blueprints", "blueprints", "")] == sorted(coded | named)
    assert {each.name for each in await pages("providers", "providers", "")} >= named
    assert len(await pages("keys", "keys", "")) == len(named)
    assert [each.name for each in await pages("schedules", "schedules", 0)] == sorted(named)
    assert len({each.id for each in await pages("threads", "threads", 0)}) == len(named)


async def test_a_page_does_not_hold_much_more_than_its_bytes(office: LoneAgency) -> None:
    for n in range(8):
        await office.call("put_blueprint", blueprint(f"n{n}", description="d" * 10_000))
    office.allow(page_bytes=25_000)
    page = await office.call("blueprints", "n")
    assert [each.name for each in page.blueprints if each.source == "agency"] == ["n0", "n1"]
