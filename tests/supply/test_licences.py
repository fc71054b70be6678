"""A package may be depended on if its licence was looked at."""

from __future__ import annotations

from email.message import Message
from importlib.metadata import Distribution
from typing import cast

import pytest

from tests.support.supply.licences import is_allowed, licence_of, python_packages, table, web_packages


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("(MIT AND CC0-1.0) OR AGPL-3.0", True),
        ("(MIT OR GPL-2.0) AND Apache-2.0", True),
        ("Apache-2.0 AND (GPL-2.0 OR AGPL-3.0)", False),
        ("GPL-3.0-or-later", False),
        ("AGPL-3.0", False),
        ("SSPL-1.0", False),
        ("GNU Affero General Public License v3", False),
        ("unknown", False),
        ("SEE LICENSE IN LICENSE.md", False),
        ("", False),
    ],
)
def test_an_expression_is_allowed_if_what_must_hold_of_it_is(licence: str, allowed: bool) -> None:
    assert is_allowed(licence) is allowed


def distribution(**fields: str | list[str]) -> Distribution:
    metadata = Message()
    metadata["Name"] = "something"
    for name, said in fields.items():
        for each in said if isinstance(said, list) else [said]:
            metadata[name.replace("_", "-")] = each
    return cast(Distribution, type("Found", (), {"name": "something", "metadata": metadata})())


@pytest.mark.parametrize(
    ("said", "licence"),
    [
        (distribution(License_Expression="MIT", License="GPL"), "MIT"),
        (distribution(Classifier=["License :: OSI Approved :: BSD License"], License="whole text"), "BSD-3-Clause"),
        (distribution(Classifier=["License :: OSI Approved", "Topic :: X"], License="ISC"), "ISC"),
        (distribution(License="first line\nsecond line"), "unknown"),
        (distribution(), "unknown"),
    ],
)
def test_the_licence_of_a_python_package_is_what_it_declares(said: Distribution, licence: str) -> None:
    assert licence_of(said) == licence


def test_what_is_installed_and_locked_here_is_allowed_and_listed() -> None:
    packages = sorted({*python_packages(), *web_packages()})
    assert {each.kind for each in packages} == {"Python", "npm"}
    assert [each for each in packages if not each.allowed] == []
    assert {"ray", "react"} <= {each.name for each in packages}
    assert table(packages).count("\n") == len(packages) + 1
