"""Turns a Where into a filter expression of Milvus. The only place that writes filter strings.

The grammar is the part that the embedded engine and Milvus 2.3 to 2.6 share: ``==``, ``<``, ``in``, ``and``, ``or``.
No pattern matching: ``like`` treats ``_`` and ``%`` as wildcards on one engine and not on the other, and has no way
to escape them. A folder is a range instead: everything under ``docs`` sorts from ``docs/`` up to, not including,
``docs0``, because ``0`` follows ``/`` in every encoding that keeps ASCII order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markdown_rag.store.base import Where

NOTHING = "ord < 0"
ANY_ROW = "ord >= 0"
COMMITTING_ROW = "ord == 0"
LIST_PIECE = 1000  # names in one ``in`` list; longer lists become several, joined

# The only escapes that both engines read alike; every other character stands for itself.
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def quote(text: str) -> str:
    """Text as a string literal of the filter language, whatever it holds."""
    return f'"{text.translate(_ESCAPES)}"'


def to_expression(where: Where) -> str:
    """The filter that is true for exactly the rows of where; "" when that is every row."""
    return " and ".join(_parts(where))


def conjunction(*expressions: str) -> str:
    """All of the given filters together; empty ones do not count."""
    return " and ".join(expression for expression in expressions if expression)


def _parts(where: Where) -> Iterator[str]:
    if where.workspaces:
        yield _one_of("workspace", where.workspaces)
    if where.scope or not where.recursive:
        yield _scope(where.scope, where.recursive)
    if where.paths is not None:
        yield _one_of("path", where.paths) if where.paths else NOTHING
    for piece in _pieces(where.exclude_paths):
        yield f"path not in [{_names(piece)}]"


def _scope(scope: str, recursive: bool) -> str:
    """The scope itself (it may be a file) and what lies in it; ``folder`` is a row's parent folder."""
    if not recursive:
        inside = f"folder == {quote(scope)}"
        return f"(path == {quote(scope)} or {inside})" if scope else inside
    low, high = quote(scope + "/"), quote(scope + "0")
    return f"(path == {quote(scope)} or (path >= {low} and path < {high}))"


def _one_of(field: str, values: Sequence[str]) -> str:
    if len(values) == 1:
        return f"{field} == {quote(values[0])}"
    tests = [f"{field} in [{_names(piece)}]" for piece in _pieces(values)]
    return tests[0] if len(tests) == 1 else f"({' or '.join(tests)})"


def _pieces(values: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), LIST_PIECE):
        yield values[start : start + LIST_PIECE]


def _names(values: Sequence[str]) -> str:
    return ", ".join(quote(value) for value in values)


def parent_folder(path: str) -> str:
    """The folder a relative POSIX path lies in; "" for the root."""
    return path.rpartition("/")[0]


def accepts(where: Where, workspace: str, path: str) -> bool:
    """The same judgement in Python: what the expression means, for the store in memory and for tests."""
    if where.workspaces and workspace not in where.workspaces:
        return False
    if not _in_scope(where, path):
        return False
    if where.paths is not None and path not in where.paths:
        return False
    return path not in where.exclude_paths


def _in_scope(where: Where, path: str) -> bool:
    if where.scope and path == where.scope:
        return True
    if not where.recursive:
        return parent_folder(path) == where.scope
    return not where.scope or path.startswith(where.scope + "/")
