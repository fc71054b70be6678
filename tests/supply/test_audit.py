"""The check of vulnerabilities fails for what is found, and not for a registry that does not answer."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.support.supply import audit
from tests.support.supply.audit import Unanswered, Vulnerability, in_npm_audit, in_pip_audit

OURS = Vulnerability("left-pad", "1.0", ("PYSEC-1", "CVE-1"), "1.1")
PIP = {
    "dependencies": [
        {"name": "sound", "version": "1.0", "vulns": []},
        {
            "name": "left-pad",
            "version": "1.0",
            "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["1.1"]}],
        },
        {"name": "elsewhere", "skip_reason": "not on PyPI"},
    ]
}
NPM = {
    "auditReportVersion": 2,
    "vulnerabilities": {
        "left-pad": {
            "range": "<1.1",
            "via": [{"source": 1, "url": "//advisories/GHSA-1"}],
            "fixAvailable": {"name": "left-pad", "version": "1.1"},
        },
        "user-of-it": {"range": "*", "via": ["left-pad"], "fixAvailable": True},
    },
}


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a check of a day is noted."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path / ".audited"


def answers(monkeypatch: pytest.MonkeyPatch, *found: Vulnerability) -> None:
    monkeypatch.setattr(audit, "python_vulnerabilities", lambda: [*found])
    monkeypatch.setattr(audit, "web_vulnerabilities", list)


def silent() -> list[Vulnerability]:
    raise Unanswered("405")


def test_what_registries_answer_is_read() -> None:
    assert in_pip_audit(PIP) == [OURS]
    assert in_npm_audit(NPM) == [Vulnerability("left-pad", "<1.1", ("GHSA-1",), "left-pad 1.1")]


def test_a_vulnerability_fails_and_says_what_to_do(
    noted: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, OURS)
    assert audit.main() == 1
    told = capsys.readouterr().out
    assert "left-pad 1.0 has PYSEC-1, CVE-1: take 1.1" in told and "REVIEWED" in told
    assert not noted.exists()


def test_one_that_was_reviewed_by_any_of_its_names_does_not(noted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, OURS)
    monkeypatch.setattr(audit, "REVIEWED", {"CVE-1": "it pads nothing here"})
    assert audit.main() == 0
    assert noted.exists()


def test_registries_that_do_not_answer_fail_nothing_and_are_asked_again(
    noted: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit, "python_vulnerabilities", silent)
    monkeypatch.setattr(audit, "web_vulnerabilities", silent)
    assert audit.main() == 0
    assert capsys.readouterr().out.count("skipped") == 2
    assert not noted.exists()


def test_what_was_found_counts_though_the_other_registry_does_not_answer(
    noted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, OURS)
    monkeypatch.setattr(audit, "web_vulnerabilities", silent)
    assert audit.main() == 1


def test_the_same_packages_are_asked_for_once_a_day(noted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch)
    assert audit.main() == 0
    monkeypatch.setattr(audit, "python_vulnerabilities", lambda: pytest.fail("asked again"))
    assert audit.main() == 0
    noted.write_text("of yesterday")
    with pytest.raises(pytest.fail.Exception):
        audit.main()


@pytest.mark.parametrize(
    "answer",
    [
        {"message": "405 Method Not Allowed", "statusCode": 405},
        {"error": {"code": "ENOTFOUND"}},
    ],
)
def test_a_registry_without_audits_is_no_clean_one(answer: audit.Json) -> None:
    with pytest.raises(Unanswered):
        in_npm_audit(answer)
    with pytest.raises(Unanswered):
        audit._answered({"dependencies": [{"name": "pip", "skip_reason": "not found"}]})


def test_a_tool_that_hangs_or_babbles_is_no_answer(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(Unanswered, match="within"):
        audit._asked([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, 0.5)
    assert time.monotonic() - began < 30
    with pytest.raises(Unanswered, match="no route"):
        audit._asked([sys.executable, "-c", "import sys; sys.exit('no route')"], tmp_path, 60)


@pytest.mark.parametrize("missing", [(sys.executable, "-m", "no_such_audit"), ("no-such-npm",), ("false",)])
def test_a_tool_that_does_not_work_is_no_silent_registry(
    noted: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: tuple[str, ...]
) -> None:
    monkeypatch.setattr(audit, "PIP_AUDIT", missing)
    monkeypatch.setattr(audit, "web_vulnerabilities", list)
    assert audit.main() == 1
    assert "pip-audit does not work" in capsys.readouterr().out
    assert not noted.exists()


def test_tools_that_work_are_asked() -> None:
    audit.check_works(*audit.PIP_AUDIT)
    audit.check_works("npm")
