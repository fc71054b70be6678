"""How the reference shows the methods of the clients.

A method of a client is written once, as a description of its request (`agency/client/operation.py`). Its source says
`-> Request[X]`; the caller gets an `X`. The reference shows what the caller of the blocking client gets.
"""

from __future__ import annotations

from griffe import Expr, ExprName, ExprSubscript, Extension, Function

RETURNS = {"asks": None, "lists": "Iterator", "follows": "Iterator", "makes_thread": "Thread", "makes_agency": "Agency"}
"""What a decorated method returns: what its request gives, an iterator of it, or a handle."""


class Operations(Extension):
    def on_function(self, *, func: Function, **_: object) -> None:
        names = {str(decorator.value) for decorator in func.decorators} & RETURNS.keys()
        if not names or not isinstance(func.returns, ExprSubscript):
            return
        given, kind = func.returns.slice, RETURNS[names.pop()]
        func.returns = _returned(given, kind)


def _returned(given: Expr | str, kind: str | None) -> Expr | str:
    if kind is None:
        return given
    return ExprSubscript(ExprName(kind), given) if kind == "Iterator" else ExprName(kind)
