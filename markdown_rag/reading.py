"""One collection opened for questions, also while its model cannot be asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from markdown_rag.errors import EmbeddingError

if TYPE_CHECKING:
    from markdown_rag.library.links import Links
    from markdown_rag.search.catalog import Catalog
    from markdown_rag.search.searcher import Searcher
    from markdown_rag.store.base import Store, Vector


@dataclass(frozen=True, slots=True)
class Reading:
    """One collection, opened for questions. links: the graphs of its workspaces, made from its store."""

    store: Store
    catalog: Catalog
    searcher: Searcher
    links: Links = field(init=False)

    def __post_init__(self) -> None:
        from markdown_rag.library.links import Links  # noqa: PLC0415 - whoever has a store has loaded its parts

        object.__setattr__(self, "links", Links(self.store))

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
