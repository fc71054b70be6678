"""Ours beside what else one could take, in the same run on the same machine.

    python -m benchmarks.peers [--json] [--only in_process|http|resume]

- `in_process`: durable round trips: deepagents with its SQLite saver, pydantic-ai with and without DBOS.
- `http`: runs over HTTP, with CPU, memory and disk: Agno's AgentOS with SQLite.
- `resume`: runs at work, every process killed, the same command again: how many runs complete by themselves.

Peers are installed at first use, pinned, each in an environment of its own (`environments.py`). The figures go
to `benchmarks/results`, the manual and the README; a part alone renews its own figures there. `--json` prints
one object as the last line.
"""

from __future__ import annotations

import argparse
import json

from benchmarks.peers import in_process, over_http, results, resume

PARTS = {"in_process": in_process.measure, "http": over_http.measure, "resume": resume.measure}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    found: results.Figures = {}
    for part, measure in PARTS.items():
        if options.only in (None, part):
            part_found = {name: round(value, 3) for name, value in measure().items()}
            results.publish(results.keep(part_found))
            found |= part_found
    print(results.table(found))
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
