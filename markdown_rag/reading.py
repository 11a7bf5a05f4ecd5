"""One collection opened for questions, also while its model cannot be asked."""

# ruff: noqa: PLC0415 - the imports inside functions load numpy, which a first reply must not wait for

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from markdown_rag.clock import Clock
from markdown_rag.errors import EmbeddingError
from markdown_rag.policies import embedding_settings
from markdown_rag.settings import Settings

if TYPE_CHECKING:
    from markdown_rag.embeddings.service import Embeddings
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
        from markdown_rag.library.links import Links

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


def open_embeddings(settings: Settings, clock: Clock) -> Embeddings:
    """The chosen model with its cache; asks and loads nothing yet. Raises SettingsError, EmbeddingError."""
    from markdown_rag.embeddings.cache import VectorCache
    from markdown_rag.embeddings.registry import create_embedder
    from markdown_rag.embeddings.retry import BatchPolicy
    from markdown_rag.embeddings.service import Embeddings

    embedder = create_embedder(embedding_settings(settings))
    policy = BatchPolicy(
        items=settings.embedding_batch_size,
        concurrent=settings.embedding_concurrent_batches,
        delay_s=settings.embedding_batch_delay_ms / 1000,
    )
    cache = VectorCache(settings.state_directory / "embeddings.sqlite3", clock=clock)
    return Embeddings(embedder, policy, cache, clock)
