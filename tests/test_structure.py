"""The figures that keep the code easy to find one's way in: small modules and classes, one name for one thing, plain
words, and tests that stand alone.

A module or a class that must be larger says why: a line of its module's docstring begins with "Large because".
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.paths import ROOT

PACKAGES = ("agency", "actors", "middleware", "dashboard")
MOST_LINES = 450
MOST_METHODS = 40
REASON = "Large because"
SHARED_NAMES = {"Agency", "Thread"}
"""What users of the client call these, and what does the work; the client's names are public."""
RIDDLES = re.compile(r"\b(nobody|somebody|whoever)\b", re.IGNORECASE)
INTERNALS = {"_store", "_driver", "_buffer"}


def source_files() -> Iterator[Path]:
    for package in PACKAGES:
        yield from (path for path in sorted((ROOT / package).rglob("*.py")) if "node_modules" not in path.parts)


def web_files() -> list[Path]:
    """The web app's own files, not what is made from the API's description."""
    found = (ROOT / "dashboard" / "web" / "src").rglob("*.ts*")
    return sorted(path for path in found if ".gen." not in path.name)


def files_of_tests() -> list[Path]:
    return sorted((ROOT / "tests").rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), path)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def allowed(most: int, path: Path) -> int:
    """How much a file may have of something: half as much again with a reason, and never more than that."""
    docstring = ast.get_docstring(parsed(path)) or ""
    reason = any(line.startswith(REASON) for line in docstring.splitlines())
    return most * 3 // 2 if reason else most


def classes(path: Path) -> list[ast.ClassDef]:
    return [node for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef)]


def methods(found: ast.ClassDef) -> int:
    return sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in found.body)


def imported(path: Path) -> Iterator[str]:
    """The modules, or names of modules, that a file imports."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield from (f"{base}.{alias.name}" for alias in node.names)


def test_no_module_is_too_long() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in source_files()}
    assert {named(path): lines for path, lines in lengths.items() if lines > allowed(MOST_LINES, path)} == {}


def test_no_class_has_too_many_methods() -> None:
    counts = {(path, each.name): methods(each) for path in source_files() for each in classes(path)}
    large = {
        f"{named(path)}: {name}": count for (path, name), count in counts.items() if count > allowed(MOST_METHODS, path)
    }
    assert large == {}


def test_the_name_of_a_class_is_used_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in source_files():
        for each in classes(path):
            places[each.name].append(named(path))
    twice = {name: found for name, found in places.items() if len(found) > 1 and name not in SHARED_NAMES}
    assert twice == {}


def test_comments_and_messages_name_who_acts() -> None:
    files = [*source_files(), *web_files()]
    lines = ((path, n, line) for path in files for n, line in enumerate(path.read_text().splitlines(), 1))
    assert [f"{named(path)}:{n}: {line.strip()}" for path, n, line in lines if RIDDLES.search(line)] == []


def test_tests_share_helpers_only_through_support() -> None:
    found = [(named(path), name) for path in files_of_tests() for name in imported(path)]
    wrong = [(path, name) for path, name in found if re.match(r"(\.|tests\b(?!\.support\b))", name)]
    assert wrong == []


def test_tests_use_public_ways() -> None:
    found = [
        f"{named(path)}:{node.lineno}: {node.attr}"
        for path in files_of_tests()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in INTERNALS
    ]
    assert found == []
