"""Every row of a filter, strongly consistent, as each engine can list them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

PAGE = 5000  # rows of one page when a server lists


def in_one(client: Any, name: str, expression: str, fields: Sequence[str], seconds: float) -> list[dict[str, Any]]:
    """One answer, however long: the embedded engine has no window, and its pages cost as much as the whole."""
    return list(client.query(name, expression, output_fields=list(fields), timeout=seconds))


def in_pages(client: Any, name: str, expression: str, fields: Sequence[str], seconds: float) -> list[dict[str, Any]]:
    """Pages, since a server answers 16,384 rows at most."""
    pages = client.query_iterator(
        name, PAGE, filter=expression, output_fields=list(fields), consistency_level="Strong", guarantee_timestamp=0, timeout=seconds
    )
    found: list[dict[str, Any]] = []
    try:
        while page := pages.next():
            found += page
    finally:
        pages.close()
    return found
