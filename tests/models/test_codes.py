"""The table of codes, and the page that people read."""

from __future__ import annotations

import re
from pathlib import Path

from agency.codes import CODES

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
SOURCES = ("agency", "actors", "middleware")
NOT_OF_A_RUN = re.compile(r"^    code(?:: ClassVar\[str\])? = \"(ERR_[A-Z_]+)\"", re.MULTILINE)


def test_the_page_has_every_code_as_the_table_has_it() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `ERR_")]
    assert rows == [
        f"| `{name}` | {code.meaning} | {'yes' if code.retryable else 'no'} | {code.remedy} |"
        for name, code in CODES.items()
    ]


def test_every_code_that_a_run_can_end_with_is_in_the_table() -> None:
    root = PAGE.parents[1]
    raised = set(NOT_OF_A_RUN.findall((root / "agency" / "errors.py").read_text()))
    texts = [
        path.read_text() for folder in SOURCES for path in (root / folder).rglob("*.py") if path.name != "codes.py"
    ]
    used = {code for text in texts for code in re.findall(r"\bERR_[A-Z]+(?:_[A-Z]+)*\b", text)}
    assert used - raised <= CODES.keys()
    assert CODES.keys() <= used


def test_a_code_says_what_to_do() -> None:
    assert all(code.meaning.endswith(".") and code.remedy.endswith(".") for code in CODES.values())
