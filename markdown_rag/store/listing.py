"""Every row of a filter, as each engine can list them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

PAGE = 5000  # rows of one page when a server lists
PIECE = 500  # values named in one request
ANSWER_ROWS = (
    20_000  # wide rows in one answer of the embedded engine: 11 MB as notes are, 108 MB at 200,000 (256 MB fit)
)
NARROW = frozenset({"id", "workspace", "path", "gen", "ord"})  # 131 bytes a row: 26 MB at 200,000 rows
_ROUNDS = 20  # of asking for the ids again, where rows went while they were read


def pieces(values: Sequence[Any]) -> Iterator[Any]:
    """Values in as many lists as requests that name them."""
    return (values[start : start + PIECE] for start in range(0, len(values), PIECE))


def embedded(
    client: Any, name: str, expression: str, fields: Sequence[str], seconds: float, *, exact: bool
) -> list[dict[str, Any]]:
    """One answer, always exact, since the engine has no window; more than ANSWER_ROWS rows that may be wide by id."""
    del exact
    query = partial(client.query, name, expression, timeout=seconds)
    if NARROW.issuperset(fields):
        return list(query(output_fields=list(fields)))
    first = list(query(output_fields=list(fields), limit=ANSWER_ROWS))
    return first if len(first) < ANSWER_ROWS else _by_id(client, name, query, fields, seconds)


def _by_id(client: Any, name: str, query: Any, fields: Sequence[str], seconds: float) -> list[dict[str, Any]]:
    """The rows as they were at one moment, read piece by piece: what an id stands for never changes.

    Where a row went before it was read, what came for it is only in a later moment's list of ids, which is asked for
    then, and is short to read.
    """
    found: dict[str, dict[str, Any]] = {}
    ids: list[str] = []
    for _ in range(_ROUNDS):
        ids = [row["id"] for row in query(output_fields=["id"])]
        for piece in pieces([key for key in ids if key not in found]):
            rows = client.get(name, piece, output_fields=["id", *fields], timeout=seconds)
            found |= {row["id"]: row for row in rows}
        if all(key in found for key in ids):
            break
    return [found[key] for key in ids if key in found]


def a_page(
    client: Any, name: str, expression: str, fields: Sequence[str], seconds: float, *, exact: bool
) -> list[dict[str, Any]]:
    """All rows of a filter if they fit into a page, else some of them."""
    level = "Strong" if exact else "Bounded"
    return list(
        client.query(name, expression, output_fields=list(fields), limit=PAGE, consistency_level=level, timeout=seconds)
    )


def in_pages(
    client: Any, name: str, expression: str, fields: Sequence[str], seconds: float, *, exact: bool
) -> list[dict[str, Any]]:
    """One page, which is nearly always all; else pages, since a server answers 16,384 rows at most.

    exact waits until every acknowledged write is visible (about 0.2 s). Pages always do: the library's iterator takes
    no consistency level, and reads at the collection's, which is Strong.
    """
    first = a_page(client, name, expression, fields, seconds, exact=exact)
    if len(first) < PAGE:
        return first
    pages = client.query_iterator(
        name,
        PAGE,
        filter=expression,
        output_fields=list(fields),
        consistency_level="Strong",
        guarantee_timestamp=0,
        timeout=seconds,
    )
    found: list[dict[str, Any]] = []
    try:
        while page := pages.next():
            found += page
    finally:
        pages.close()
    return found
