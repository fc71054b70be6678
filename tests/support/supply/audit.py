"""Known vulnerabilities of what the project needs: `pip-audit` for the environment, `npm audit` for the web app.

    python -m tests.support.supply.audit        (which is `make audit`)

Both ask their package registry, and a registry may not answer such questions, or not be there: then one line says so,
and nothing fails, because a check must be possible without a network. Every question has a short time. What was asked
and answered for exactly these packages is not asked again on the same day. A tool that is missing or does not start is
no silent registry: that fails.

A vulnerability that is found fails the check. If it cannot be mended by another version, and does not concern this
project, `REVIEWED` says why.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

REVIEWED: Mapping[str, str] = {}
"""Identifiers of vulnerabilities (PYSEC-…, CVE-…, GHSA-…) that do not concern this project, and the reason of each."""

WEB = ROOT / "dashboard" / "web"
PIP_AUDIT = (sys.executable, "-m", "pip_audit")
QUESTION_SECONDS = 5
WHOLE_SECONDS = 120
Json = Any


class Unanswered(Exception):
    """A registry that cannot say whether there are vulnerabilities; the reason."""


class Broken(Exception):
    """A tool that does not work, so that nothing can be asked; the reason."""


@dataclass(frozen=True)
class Vulnerability:
    package: str
    version: str
    names: tuple[str, ...]
    """All that it is called."""
    mended_in: str
    """A version, or nothing if there is none yet."""

    @property
    def reviewed(self) -> str | None:
        return next((REVIEWED[name] for name in self.names if name in REVIEWED), None)

    def __str__(self) -> str:
        todo = f"take {self.mended_in}" if self.mended_in else "there is no version without it yet"
        return f"{self.package} {self.version} has {', '.join(self.names)}: {todo}"


# Python.


def python_vulnerabilities() -> list[Vulnerability]:
    """Those of the environment. One package is asked for first: a registry that cannot answer for that can for none."""
    check_works(*PIP_AUDIT)
    _answered(_pip_audit([("pip", version("pip"))], QUESTION_SECONDS * 4))
    installed = sorted({(each.name, each.version) for each in distributions() if each.name != "agency"})
    return in_pip_audit(_answered(_pip_audit(installed, WHOLE_SECONDS)))


def _pip_audit(packages: Iterable[tuple[str, str]], seconds: float) -> Json:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write("".join(f"{name}=={number}\n" for name, number in packages))
        wanted.flush()
        command = [*PIP_AUDIT, "--requirement", wanted.name, "--no-deps", "--disable-pip"]
        command += ["--format", "json", "--progress-spinner", "off", "--timeout", str(QUESTION_SECONDS)]
        return _asked(command, ROOT, seconds)


def _answered(found: Json) -> Json:
    packages = found["dependencies"]
    if packages and all("skip_reason" in each for each in packages):
        raise Unanswered(str(packages[0]["skip_reason"]))
    return found


def in_pip_audit(found: Json) -> list[Vulnerability]:
    return [
        Vulnerability(
            each["name"], each["version"], (one["id"], *one.get("aliases", ())), ", ".join(one.get("fix_versions", ()))
        )
        for each in found["dependencies"]
        for one in each.get("vulns", ())
    ]


# The web app.


def web_vulnerabilities() -> list[Vulnerability]:
    """Those of what the lock file of the web app names, tools for its development among them."""
    check_works("npm")
    options = ["--json", f"--fetch-timeout={1_000 * QUESTION_SECONDS}", "--fetch-retries=0", "--no-update-notifier"]
    return in_npm_audit(_asked(["npm", "audit", *options], WEB, WHOLE_SECONDS))


def in_npm_audit(found: Json) -> list[Vulnerability]:
    if "vulnerabilities" not in found:
        raise Unanswered(str(found.get("message") or found.get("statusCode") or "it does not answer audits"))
    return [
        Vulnerability(name, each.get("range", ""), (_named(one),), _mended(each.get("fixAvailable")))
        for name, each in found["vulnerabilities"].items()
        for one in each["via"]
        if isinstance(one, dict)  # a text names another package of the list, by which this one is affected
    ]


def _named(advisory: Json) -> str:
    return str(advisory.get("url") or advisory["source"]).rpartition("/")[2]


def _mended(fix: Json) -> str:
    if isinstance(fix, dict):
        return f"{fix['name']} {fix['version']}"
    return "what `npm audit fix` gives" if fix else ""


def check_works(*tool: str) -> None:
    """Raise `Broken` unless a tool starts and says its version."""
    try:
        done = _run([*tool, "--version"], ROOT, WHOLE_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Broken(str(error)) from None
    if done.returncode or not done.stdout.strip():
        raise Broken(_last_line(done.stderr))


def _asked(command: list[str], folder: Path, seconds: float) -> Json:
    """What a tool prints. Its exit code says whether it has found something, as what it prints does."""
    try:
        done = _run(command, folder, seconds)
        return json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise Unanswered(f"no answer within {seconds:g} s") from None
    except ValueError:
        raise Unanswered(_last_line(done.stderr)) from None


def _run(command: list[str], folder: Path, seconds: float) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=seconds, check=False)


def _last_line(said: bytes) -> str:
    return (said.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]


# The check.


def unreviewed(found: Iterable[Vulnerability]) -> list[Vulnerability]:
    return [each for each in found if each.reviewed is None]


def question() -> str:
    """What is asked today, in short: the packages and the day."""
    packages = sorted(f"{each.name}=={each.version}" for each in distributions())
    lock = (WEB / "package-lock.json").read_text()
    return hashlib.sha256(f"{datetime.now(UTC).date()}{packages}{lock}{dict(REVIEWED)}".encode()).hexdigest()


def main() -> int:
    noted = Path(sys.prefix) / ".audited"
    asked = question()
    if noted.exists() and noted.read_text() == asked:
        return 0
    found: list[Vulnerability] = []
    whole = True
    for what, look in (("pip-audit", python_vulnerabilities), ("npm audit", web_vulnerabilities)):
        try:
            found += unreviewed(look())
        except Unanswered as reason:
            whole = False
            say(f"{what}: skipped, the registry does not answer: {reason}")
        except Broken as reason:
            say(f"{what} does not work, so nothing was asked; `make tools` sets it up: {reason}")
            return 1
    for each in found:
        say(f"vulnerable: {each}")
    if found:
        say(
            "Raise them in constraints.txt or dashboard/web, or say why not (REVIEWED in tests/support/supply/audit.py)"
        )
        return 1
    if whole:
        noted.write_text(asked)
    return 0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
