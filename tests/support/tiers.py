"""The tiers of the tests: what each test needs, which tests share a worker, and which may be repeated.

A test's marks follow from the fixtures that it uses and the folder that it is in; a test that starts a Ray or kills a
process by other means says so itself, with `@pytest.mark.ray` or `@pytest.mark.kills`. What has none of the three marks
is the quick tier.

Only tests that kill real processes or drive a browser may be repeated, once each: a busy machine may keep those waiting
for longer than they wait. No other test ever is. Every repeat is named at the end, with its reason: a test that is
named there often is broken.
"""

from __future__ import annotations

from pathlib import Path

import pytest

MARKS = (
    "ray: starts Ray, or uses the one that its worker shares",
    "browser: drives a Chromium",
    "kills: kills real processes",
)
NEEDS = {"ray": {"ray_settings", "own_ray", "nodes"}, "browser": {"chromium"}}
"""The fixtures that give a test its mark."""
REPEATED = ("kills", "browser")
OWN_RAY = "own-ray"
SHARED_RAY = "ray_settings"
"""Who uses Ray without this fixture starts one of its own."""
TOGETHER = ("chromium", "guarded", "limited", "rated", "strict")
"""Fixtures whose tests run in one worker, so that what they share is started once."""


def mark_tiers(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        for mark, needed in NEEDS.items():
            if fixtures & needed:
                item.add_marker(mark)
        if item.path.parent.name == "faults":
            item.add_marker("kills")
        if group := _group(item, fixtures):
            item.add_marker(pytest.mark.xdist_group(group))
        if any(item.get_closest_marker(mark) for mark in REPEATED):
            item.add_marker(pytest.mark.flaky(reruns=1))
    items.sort(key=_comes_later)


def _comes_later(item: pytest.Item) -> bool:
    """The longest group comes first: the other workers share the rest, and it is over when the browser's turn comes."""
    group = item.get_closest_marker("xdist_group")
    return group is None or group.args[0] != OWN_RAY


def _group(item: pytest.Item, fixtures: set[str]) -> str | None:
    """The tests of a group run one after the other, in one worker.

    Two tests at once that each have a Ray of their own, or a browser, would keep a machine of two cores from being on
    time.
    """
    if item.get_closest_marker("ray") and SHARED_RAY not in fixtures:
        return OWN_RAY
    return next((name for name in TOGETHER if name in fixtures), None)


def print_repeats(reporter: pytest.TerminalReporter) -> None:
    repeated: list[pytest.TestReport] = reporter.stats.get("rerun", [])
    if repeated:
        reporter.section("repeated tests", "=")
    for report in repeated:
        reporter.write_line(f"REPEATED {report.nodeid}: {_reason(report)}")


def _reason(report: pytest.TestReport) -> str:
    """Where it failed the first time, and what was said there, in one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    said = str(report.longrepr if crash is None else crash.message).strip().splitlines() or ["no reason was given"]
    return said[-1] if crash is None else f"{Path(crash.path).name}:{crash.lineno}: {said[0]}"
