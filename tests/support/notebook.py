"""An interpreter that runs the Python blocks of one page, each after the other, with the names of those before it.

It is started in a process of its own. A line of its input is a block as JSON, a line of its output what came of it. As
in `python -m asyncio`, a block may await; all of a page share one event loop.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import sys
import traceback


def main() -> None:
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what other processes print, Ray's say, is no reply
    sys.path.insert(0, os.getcwd())  # noqa: PTH109  # entries of sys.path are strings
    names: dict[str, object] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            block = json.loads(line)
            os.environ.update(block["environment"])
            printed, error = run(runner, block["code"], block["where"], names)
            replies.write(json.dumps({"printed": printed, "error": error}) + "\n")
            replies.flush()


def run(runner: asyncio.Runner, code: str, where: str, names: dict[str, object]) -> tuple[str, str]:
    """What a block has printed, and how it failed; an empty text if it did not."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            result = eval(compile(code, where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
            if inspect.iscoroutine(result):
                runner.run(result)
        except BaseException:
            return out.getvalue(), traceback.format_exc()
    return out.getvalue(), ""


if __name__ == "__main__":
    main()
