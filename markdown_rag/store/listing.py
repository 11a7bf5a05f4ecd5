"""Every row of a filter, as each engine can list them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

PAGE = 5000  # rows of one page when a server lists
PIECE = 500  # values named in one request


def pieces(values: Sequence[Any]) -> Iterator[Any]:
    """Values in as many lists as requests that name them."""
    return (values[start : start + PIECE] for start in range(0, len(values), PIECE))


def in_one(
    client: Any, name: str, expression: str, fields: Sequence[str], seconds: float, *, exact: bool
) -> list[dict[str, Any]]:
    """One answer, however long, and always exact: the embedded engine has no window, and its pages cost as much."""
    del exact
    return list(client.query(name, expression, output_fields=list(fields), timeout=seconds))


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
