"""The licences of what the project needs: those of the environment, and those of the web app.

    python -m tests.support.supply.licences             fails if there is one that was not looked at
    python -m tests.support.supply.licences --table     prints all of them, for dist/licences.md

A package may have any licence of `ALLOWED`, or one of several if that one is. A package whose own words are no
identifier has a line in `SAID`. What has neither is a decision for people: may the project depend on it?
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions

from tests.support.paths import ROOT

ALLOWED = frozenset(
    (
        *("0BSD", "Apache-2.0", "BlueOak-1.0.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0"),
        *("PSF-2.0", "Python-2.0", "Python-2.0.1", "Unlicense", "Unicode-3.0", "Zlib"),
        "MPL-2.0",  # of its own files, which nobody changes here
        "CC-BY-4.0",  # of data and texts
    )
)
OURS = frozenset(("agency", "agency-dashboard"))

CLASSIFIED: Mapping[str, str] = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
}
"""What PyPI's classifiers mean."""

SAID: Mapping[str, str] = {
    "protobuf": "BSD-3-Clause",
    "pytest-timeout": "MIT",
    "ray": "Apache-2.0",
}
"""What packages say that say it in words of their own, by their names."""

_WORDS = re.compile(r"[A-Za-z0-9.+-]+")


@dataclass(frozen=True, order=True)
class Package:
    kind: str
    name: str
    version: str
    licence: str

    @property
    def allowed(self) -> bool:
        return is_allowed(self.licence)


def is_allowed(licence: str) -> bool:
    """Whether a licence is, of which an expression may name several: all of those joined by AND, one of those by OR.
    Brackets are taken from the inside out."""
    while bracket := re.search(r"\(([^()]*)\)", licence):
        inner = "MIT" if is_allowed(bracket[1]) else "not-allowed"
        licence = licence[: bracket.start()] + inner + licence[bracket.end() :]
    return any(
        all(_WORDS.fullmatch(part.strip()) is not None and part.strip() in ALLOWED for part in one.split(" AND "))
        for one in licence.split(" OR ")
    )


def python_packages() -> Iterator[Package]:
    for found in distributions():
        if found.name.lower() not in OURS:
            yield Package("Python", found.name, found.version, licence_of(found))


def licence_of(found: Distribution) -> str:
    """By what was looked up, else by the expression that it declares, else by its classifiers, else by an old field."""
    if found.name.lower() in SAID:
        return SAID[found.name.lower()]
    metadata = found.metadata
    if expression := metadata.get_all("License-Expression"):
        return str(expression[0])
    classified = [
        each.rpartition(" :: ")[2] for each in metadata.get_all("Classifier") or () if each.startswith("License :: ")
    ]
    classified = [CLASSIFIED.get(each, each) for each in classified if each != "OSI Approved"]
    if classified:
        return " AND ".join(sorted({*classified}))
    old = str((metadata.get_all("License") or [""])[0]).strip()
    return old if old and "\n" not in old and len(old) < 100 else "unknown"


def web_packages() -> Iterator[Package]:
    """What the lock file names, and what each package says of itself where the lock file does not. One that is built
    for another machine is not here to be asked; it belongs to one that is."""
    web = ROOT / "dashboard" / "web"
    locked = json.loads((web / "package-lock.json").read_text())["packages"]
    for path, found in locked.items():
        name = path.rpartition("node_modules/")[2]
        there = web / path / "package.json"
        if not name or found.get("link") or (found.get("optional") and not there.exists()):
            continue
        licence = SAID.get(name) or found.get("license")
        if licence is None and there.exists():
            licence = json.loads(there.read_text()).get("license")
        yield Package("npm", name, found["version"], str(licence or "unknown"))


def table(packages: list[Package]) -> str:
    rows = (f"| {each.kind} | {each.name} | {each.version} | {each.licence} |" for each in packages)
    return "\n".join(("| from | package | version | licence |", "| --- | --- | --- | --- |", *rows))


def main() -> int:
    parser = argparse.ArgumentParser(description="The licences of what the project needs.")
    parser.add_argument("--table", action="store_true", help="print all of them")
    given = parser.parse_args()
    packages = sorted({*python_packages(), *web_packages()})
    if given.table:
        sys.stdout.write(f"{table(packages)}\n")
    strange = [each for each in packages if not each.allowed]
    for each in strange:
        sys.stderr.write(f"{each.kind} package {each.name} {each.version} has the licence {each.licence!r}\n")
    if strange:
        sys.stderr.write(
            "Decide whether the project may depend on it: then add the licence to ALLOWED, or what the package says in "
            "words of its own to SAID, in tests/support/supply/licences.py.\n"
        )
    return 1 if strange else 0


if __name__ == "__main__":
    sys.exit(main())
