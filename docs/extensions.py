"""How the reference shows methods that are described elsewhere than where they are called.

A method of a client is written once, as a description of its request (`agency/client/operation.py`). Its source says
`-> Request[X]`; the caller gets an `X`. The reference shows what the caller of the blocking client gets.

A method of a handle on Ray is one line, `pause = remote(Thread.pause)` (`actors/operations.py`). The reference shows it
with the signature and the description of the operation.
"""

from __future__ import annotations

from griffe import (
    Attribute,
    Expr,
    ExprCall,
    ExprName,
    ExprSubscript,
    Extension,
    Function,
    GriffeLoader,
    Module,
)

RETURNS = {"asks": None, "lists": "Iterator", "follows": "Iterator", "makes_thread": "Thread", "makes_agency": "Agency"}
"""What a decorated method returns: what its request gives, an iterator of it, or a handle."""

HANDLES = ("actors.cluster.agency_handle.AgencyHandle", "actors.cluster.thread_handle.ThreadHandle")


class Operations(Extension):
    def on_function(self, *, func: Function, **_: object) -> None:
        names = {str(decorator.value) for decorator in func.decorators} & RETURNS.keys()
        if not names or not isinstance(func.returns, ExprSubscript):
            return
        given, kind = func.returns.slice, RETURNS[names.pop()]
        func.returns = _returned(given, kind)

    def on_package(self, *, pkg: Module, loader: GriffeLoader, **_: object) -> None:
        if pkg.path != "actors":
            return
        if "agency" not in loader.modules_collection:
            loader.load("agency")  # operations of threads are methods of the library's `Thread`
        for handle in map(loader.modules_collection.__getitem__, HANDLES):
            for member in list(handle.members.values()):
                if isinstance(member, Attribute) and (path := _operation(member.value)) is not None:
                    handle.set_member(member.name, _shown(member, loader.modules_collection[path]))


def _returned(given: Expr | str, kind: str | None) -> Expr | str:
    if kind is None:
        return given
    return ExprSubscript(ExprName(kind), given) if kind == "Iterator" else ExprName(kind)


def _operation(value: Expr | str | None) -> str | None:
    """The operation that `remote(...)` calls."""
    if not isinstance(value, ExprCall) or str(value.function) != "remote":
        return None
    method = value.arguments[0]
    return method.canonical_path if isinstance(method, Expr) else None


def _shown(line: Attribute, operation: Function) -> Function:
    shown = Function(
        line.name,
        parameters=operation.parameters,
        returns=operation.returns,
        docstring=operation.docstring,
        lineno=line.lineno,
        endlineno=line.endlineno,
    )
    shown.labels.add("async")
    return shown
