"""Figures in the manual and the README. What stands there between two comments is written by the benchmark that the
first one names."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
END = "<!-- until here -->"


def begin(benchmark: str) -> str:
    return f"<!-- written by `python -m benchmarks.{benchmark}` -->"


def written(page: str, benchmark: str, text: str) -> str:
    """The page with this text in its place."""
    before, mark, rest = page.partition(begin(benchmark))
    if not mark or END not in rest:
        raise ValueError(f"the page has no place that begins with {begin(benchmark)!r} and ends with {END!r}")
    return f"{before}{mark}\n\n{text}\n\n{END}{rest.partition(END)[2]}"


def write(path: Path, benchmark: str, text: str) -> None:
    path.write_text(written(path.read_text(), benchmark, text))
