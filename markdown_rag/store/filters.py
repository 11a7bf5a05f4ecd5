"""Turns a Where into a filter expression of Milvus. The only place that writes filter strings.

The grammar is the part that the embedded engine and Milvus 2.3 to 2.6 share: ``==``, ``<``, ``in``, ``and``, ``or``.
No pattern matching: ``like`` treats ``_`` and ``%`` as wildcards on one engine and not on the other, and has no way
to escape them. A folder is a range instead: everything under ``docs`` sorts from ``docs/`` up to, not including,
``docs0``, because ``0`` follows ``/`` in every encoding that keeps ASCII order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from markdown_rag.paths import is_within
from markdown_rag.store.base import Where

NOTHING = "ord < 0"
ANY_ROW = "ord >= 0"
COMMITTING_ROW = "ord == 0"
CARRIES_LINKS = 'links != ""'
LIST_PIECE = 1000  # names in one ``in`` list; longer lists become several, joined

# The only escapes that both engines read alike; every other character stands for itself.
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def quote(text: str) -> str:
    """Text as a string literal of the filter language, whatever it holds."""
    return f'"{text.translate(_ESCAPES)}"'


def to_expression(where: Where) -> str:
    """The filter that is true for exactly the rows of where; "" when that is every row."""
    return " and ".join(_parts(where))


def one_of_texts(text_hashes: Sequence[str]) -> str:
    """The filter that is true for the rows that hold one of these texts."""
    return _one_of("text_hash", text_hashes)


def conjunction(*expressions: str) -> str:
    """All of the given filters together; empty ones do not count."""
    return " and ".join(expression for expression in expressions if expression)


def _parts(where: Where) -> Iterator[str]:
    if where.workspaces:
        yield _one_of("workspace", where.workspaces)
    if where.scope or not where.recursive:
        yield _scope(where.scope, where.recursive)
    if where.within:
        yield _any(_scope(scope, True) for scope in where.within)
    for scope in where.outside:
        yield _outside(scope)
    if where.files is not None:
        yield _files(where.files)
    if where.paths is not None:
        yield _one_of("path", where.paths) if where.paths else NOTHING
    for piece in _pieces(where.exclude_paths):
        yield f"path not in [{_names(piece)}]"


def _files(files: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Named files, each in its own workspace."""
    pairs = [conjunction(_one_of("workspace", (id_,)), _one_of("path", paths)) for id_, paths in files if paths]
    return _any(f"({pair})" for pair in pairs) if pairs else NOTHING


def _any(expressions: Iterable[str]) -> str:
    tests = list(expressions)
    return tests[0] if len(tests) == 1 else f"({' or '.join(tests)})"


def _outside(scope: str) -> str:
    """Neither the scope itself nor anything in it."""
    if not scope:
        return NOTHING
    low, high = quote(scope + "/"), quote(scope + "0")
    return f"(path != {quote(scope)} and (path < {low} or path >= {high}))"


def _scope(scope: str, recursive: bool) -> str:
    """The scope itself (it may be a file) and what lies in it; ``folder`` is a row's parent folder."""
    if recursive and not scope:
        return ANY_ROW
    if not recursive:
        inside = f"folder == {quote(scope)}"
        return f"(path == {quote(scope)} or {inside})" if scope else inside
    low, high = quote(scope + "/"), quote(scope + "0")
    return f"(path == {quote(scope)} or (path >= {low} and path < {high}))"


def _one_of(field: str, values: Sequence[str]) -> str:
    if len(values) == 1:
        return f"{field} == {quote(values[0])}"
    return _any(f"{field} in [{_names(piece)}]" for piece in _pieces(values))


def _pieces(values: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), LIST_PIECE):
        yield values[start : start + LIST_PIECE]


def _names(values: Sequence[str]) -> str:
    return ", ".join(quote(value) for value in values)


def parent_folder(path: str) -> str:
    """The folder a relative POSIX path lies in; "" for the root."""
    return path.rpartition("/")[0]


def accepts(where: Where, workspace: str, path: str) -> bool:
    """Whether one row's file is meant: the expression's judgement in Python."""
    return matcher(where)(workspace, path)


def matcher(where: Where) -> Callable[[str, str], bool]:
    """The judgement of the expression as a function of workspace and path, for many rows."""
    workspaces, excluded = frozenset(where.workspaces), frozenset(where.exclude_paths)
    paths = None if where.paths is None else frozenset(where.paths)
    files = None if where.files is None else frozenset((id_, path) for id_, some in where.files for path in some)

    def holds(workspace: str, path: str) -> bool:
        return (
            (not workspaces or workspace in workspaces)
            and _in_scope(where, path)
            and (paths is None or path in paths)
            and (files is None or (workspace, path) in files)
            and (not where.within or any(is_within(path, scope) for scope in where.within))
            and not any(is_within(path, scope) for scope in where.outside)
            and path not in excluded
        )

    return holds


def _in_scope(where: Where, path: str) -> bool:
    if where.scope and path == where.scope:
        return True
    if not where.recursive:
        return parent_folder(path) == where.scope
    return not where.scope or path.startswith(where.scope + "/")
