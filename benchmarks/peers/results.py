"""What was measured, kept in `benchmarks/results`: as JSON, as tables for people, and as a picture of the ratios.

The tables are also in the manual, and the README has a few of the figures.
"""

from __future__ import annotations

import json
from pathlib import Path
from xml.sax.saxutils import escape

from benchmarks import pages
from benchmarks.peers.environments import peers, version_of

FOLDER = pages.ROOT / "benchmarks" / "results"
MANUAL, README = pages.ROOT / "docs" / "figures.md", pages.ROOT / "README.md"

Figures = dict[str, float]

BAR, LEFT, WIDTH = 26, 380, 860


def keep(found: Figures, folder: Path = FOLDER) -> Figures:
    """Adds what was found to what is there, and returns all of it."""
    folder.mkdir(exist_ok=True)
    path = folder / "peers.json"
    known: Figures = json.loads(path.read_text()) if path.exists() else {}
    known |= found
    path.write_text(json.dumps(known, indent=2) + "\n")
    (folder / "peers.md").write_text(table(known) + "\n")
    (folder / "peers.svg").write_text(picture(known) + "\n")
    return known


def publish(known: Figures) -> None:
    pages.write(MANUAL, "peers", table(known))
    pages.write(README, "peers", short(known))


def table(figures: Figures) -> str:
    tables = (in_process_table(figures), http_table(figures), resume_table(figures))
    return "\n\n".join((*(each for each in tables if each), versions()))


def versions() -> str:
    return "Measured with " + ", ".join(f"{peer.replace('_', '-')} {version_of(peer)}" for peer in peers()) + "."


def rows(*cells: tuple[str, ...]) -> str:
    """A table whose first row is its head."""
    head, *body = (f"| {' | '.join(row)} |" for row in cells)
    return "\n".join((head, "| " + " | ".join("---" for _ in cells[0]) + " |", *body))


IN_PROCESS = {
    "ours": "ours",
    "ours_stock": "ours with planning, files and subagents",
    "deepagents": "deepagents, SQLite saver",
    "pydantic_ai_dbos": "pydantic-ai, DBOS on SQLite",
    "pydantic_ai": "pydantic-ai alone, nothing durable",
}


def in_process_table(figures: Figures) -> str:
    if "ours_round_trip_ms" not in figures:
        return ""
    head = ("in one process", "a round trip", "its CPU", "200 agents at once", "disk per round trip", "peak memory")
    return rows(head, *((label, *_in_process_cells(figures, key)) for key, label in IN_PROCESS.items()))


def _in_process_cells(figures: Figures, key: str) -> tuple[str, ...]:
    return (
        f"{figures[f'{key}_round_trip_ms']:.2f} ms",
        f"{figures[f'{key}_round_trip_cpu_ms']:.2f} ms",
        f"{figures[f'{key}_round_trips_per_s_200']:,.0f} round trips/s",
        f"{figures[f'{key}_disk_bytes_per_round_trip'] / 1_000:.1f} kB",
        f"{figures[f'{key}_peak_mb']:.0f} MB",
    )


OVER_HTTP = {
    "http_runs_per_s_at_1": ("runs/s, one at a time", "{:.0f}"),
    "http_runs_per_s_at_20": ("… 20 at once", "{:.0f}"),
    "http_runs_per_s_at_50": ("… 50 at once", "{:.0f}"),
    "http_p50_ms_at_50": ("p50 at 50", "{:,.0f} ms"),
    "http_p99_ms_at_50": ("p99 at 50", "{:,.0f} ms"),
    "http_cpu_ms_per_run": ("server CPU per run", "{:.1f} ms"),
    "pss_mb_idle": ("memory of all server processes, idle", "{:,.0f} MB"),
    "pss_mb_busy": ("… with 50 runs at work", "{:,.0f} MB"),
    "disk_bytes_per_run": ("disk per run, in bytes", "{:,.0f}"),
}


def http_table(figures: Figures) -> str:
    if "ours_http_runs_per_s_at_1" not in figures:
        return ""
    body = [
        (label, *(shape.format(figures[f"{each}_{key}"]) for each in ("ours", "agno")))
        for key, (label, shape) in OVER_HTTP.items()
    ]
    return rows(("over HTTP, five calls of a tool a run", "ours", "Agno AgentOS, SQLite"), *body)


RESUMED = {"ours": "ours", "agno": "Agno AgentOS, background runs"}


def resume_table(figures: Figures) -> str:
    if "resume_runs" not in figures:
        return ""
    head = (
        f"{figures['resume_runs']:.0f} runs at work, kill -9, restart",
        "complete by themselves",
        "the last of them",
    )
    body = [
        (label, f"{figures[f'{each}_resumed']:.0f}", _after(figures[f"{each}_resumed_within_s"]))
        for each, label in RESUMED.items()
    ]
    return rows(head, *body)


def _after(seconds: float) -> str:
    return f"{seconds:.0f} s after the kill" if seconds else ""


SHORT = {
    "speedup_round_trip": (
        "a durable round trip, with planning, files and subagents",
        "{ours_stock_round_trip_ms:.2f} ms",
        "deepagents, SQLite saver: {deepagents_round_trip_ms:.1f} ms",
    ),
    "speedup_200_agents": (
        "200 such agents at once",
        "{ours_stock_round_trips_per_s_200:,.0f} round trips/s",
        "deepagents, SQLite saver: {deepagents_round_trips_per_s_200:,.0f}",
    ),
    "speedup_round_trip_pydantic_ai_dbos": (
        "a durable round trip, without them",
        "{ours_round_trip_ms:.2f} ms",
        "pydantic-ai, DBOS on SQLite: {pydantic_ai_dbos_round_trip_ms:.1f} ms",
    ),
    "http_runs_per_s_ratio_at_50": (
        "runs of five tool calls over HTTP, 50 at once",
        "{ours_http_runs_per_s_at_50:.0f} a second, p99 {ours_http_p99_ms_at_50:,.0f} ms",
        "Agno AgentOS, SQLite: {agno_http_runs_per_s_at_50:.0f} a second, p99 {agno_http_p99_ms_at_50:,.0f} ms",
    ),
    "agno_pss_mb_idle": (
        "memory of the idle server",
        "{ours_pss_mb_idle:,.0f} MB",
        "Agno AgentOS: {agno_pss_mb_idle:,.0f} MB",
    ),
    "resume_runs": (
        "{resume_runs:.0f} runs at work, every process killed, started again",
        "{ours_resumed:.0f} complete by themselves",
        "Agno AgentOS: {agno_resumed:.0f}",
    ),
}
"""What the README says, as far as it was measured."""


def short(figures: Figures) -> str:
    measured = [lines for key, lines in SHORT.items() if key in figures]
    return rows(
        ("beside others, in the same run", "ours", ""),
        *(tuple(line.format_map(figures) for line in lines) for lines in measured),
    )


RATIOS = {
    "speedup_round_trip": "a round trip, against deepagents",
    "speedup_200_agents": "200 agents at once, against deepagents",
    "speedup_round_trip_pydantic_ai_dbos": "a round trip, against pydantic-ai with DBOS",
    "speedup_200_agents_pydantic_ai_dbos": "200 agents at once, against pydantic-ai with DBOS",
    "http_runs_per_s_ratio_at_1": "runs over HTTP one at a time, against AgentOS",
    "http_runs_per_s_ratio_at_20": "runs over HTTP, 20 at once, against AgentOS",
    "http_runs_per_s_ratio_at_50": "runs over HTTP, 50 at once, against AgentOS",
}
"""How many times faster ours is."""


def picture(figures: Figures) -> str:
    """A bar for each ratio, as SVG; each has its figure beside it."""
    bars = [(label, figures[key]) for key, label in RATIOS.items() if key in figures]
    longest = max((value for _, value in bars), default=1.0)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{BAR * (len(bars) + 1)}"'
        ' font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{BAR * (len(bars) + 1)}" fill="white"/>',
        f'<text x="{LEFT}" y="17" fill="#333">how many times faster ours is</text>',
    ]
    for row, (label, value) in enumerate(bars, 1):
        y, length = row * BAR, (WIDTH - LEFT - 70) * value / longest
        lines.append(f'<text x="{LEFT - 10}" y="{y + 16}" text-anchor="end" fill="#333">{escape(label)}</text>')
        lines.append(f'<rect x="{LEFT}" y="{y + 4}" width="{length:.0f}" height="{BAR - 9}" fill="#3f51b5"/>')
        lines.append(f'<text x="{LEFT + length + 8:.0f}" y="{y + 16}" fill="#333">{value:.1f}×</text>')
    return "\n".join([*lines, "</svg>"])
