"""One collection opened for questions, also while its model cannot be asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from markdown_rag.errors import EmbeddingError

if TYPE_CHECKING:
    from markdown_rag.search.catalog import Catalog
    from markdown_rag.search.searcher import Searcher
    from markdown_rag.store.base import Store, Vector


@dataclass(frozen=True, slots=True)
class Reading:
    """One collection, opened for questions."""

    store: Store
    catalog: Catalog
    searcher: Searcher

    def close(self) -> None:
        """End the searcher's threads; the store is closed by whoever opened it."""
        self.searcher.close()


class Unreachable:
    """Stands for a model that cannot be asked: every query answers with the reason."""

    def __init__(self, reason: EmbeddingError) -> None:
        self._reason = reason

    def query(self, text: str) -> Vector:
        """Raises the reason."""
        del text
        raise self._reason
