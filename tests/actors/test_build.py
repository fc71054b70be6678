"""What hosts run is told apart by the code that a system leads to, and by what its models are configured with."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import build
from agency import AgentSystem
from agency.key_rules import KeyRule, OutgoingRules
from agency.models.providers.entry import Provider

FILES = {
    "shop.py": "import os\nimport json.decoder\nfrom staff import clerks\nfrom staff.tools import till as t\n",
    "staff/__init__.py": "",
    "staff/clerks.py": "from . import rules\nfrom .tools import till\n",
    "staff/rules.py": "from ..nowhere import nothing\n",
    "staff/tools/__init__.py": "",
    "staff/tools/till.py": "import broken\n",
    "broken.py": "def (",
    "unrelated.py": "",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


NOTHING = OutgoingRules()


def fingerprint(folder: Path, outgoing: OutgoingRules = NOTHING, **providers: Provider) -> str:
    variables = build.environment(build.references(AgentSystem("demo:default"), providers))
    return build.fingerprint("shop:system", (str(folder / "missing"), str(folder)), providers, variables, outgoing)


@pytest.mark.parametrize("name", sorted(FILES.keys() - {"unrelated.py"}))
def test_a_change_in_any_module_that_it_leads_to_is_seen(folder: Path, name: str) -> None:
    before = fingerprint(folder)
    assert fingerprint(folder) == before
    (folder / name).write_text(FILES[name] + "# changed\n")
    assert fingerprint(folder) != before


def test_a_change_elsewhere_is_not(folder: Path) -> None:
    before = fingerprint(folder)
    (folder / "unrelated.py").write_text("changed = True\n")
    assert fingerprint(folder) == before


MINE = Provider(api="openai", base_url="http://localhost/v1", key="env:MY_KEY", headers={"X-Team": "env:MY_TEAM"})


@pytest.mark.parametrize(
    ("variable", "counts"),
    [
        ("OPENAI_API_KEY", True),
        ("ANTHROPIC_BASE_URL", True),
        ("AGENCY_KEY_MINE", True),
        ("MY_KEY", True),
        ("MY_TEAM", True),
        ("X", False),
        ("AGENCY_SECRET", False),
    ],
)
def test_the_models_keys_count_and_nothing_else_of_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str, counts: bool
) -> None:
    before = fingerprint(folder, mine=MINE)
    monkeypatch.setenv(variable, "another")
    assert (fingerprint(folder, mine=MINE) != before) is counts
    named = build.references(AgentSystem("demo:default"), {"mine": MINE})
    assert (variable in build.environment(named)) is counts


def test_a_changed_provider_of_the_settings_is_seen(folder: Path) -> None:
    found = {fingerprint(folder), fingerprint(folder, mine=MINE), fingerprint(folder, other=MINE)}
    found.add(fingerprint(folder, mine=MINE.model_copy(update={"base_url": "http://localhost/v2"})))
    assert len(found) == 4


def test_what_agencies_may_use_their_keys_for_is_seen(folder: Path) -> None:
    rule = KeyRule(agencies=("agc_1",), hosts=("api.openai.com",))
    found = {fingerprint(folder), fingerprint(folder, OutgoingRules(keys={"AGENCY_KEY_X": rule}))}
    found.add(fingerprint(folder, OutgoingRules(private_hosts=("localhost:11434",))))
    assert len(found) == 3
