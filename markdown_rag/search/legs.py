"""The two ways of searching, run at the same time: by similarity and by keywords.

One object serves one query. A way that fails is not asked again and its reason is kept; only when neither is left does
the failure leave as an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from typing import Protocol

from markdown_rag.errors import EmbeddingError, FastRagError, StoreError
from markdown_rag.search.answer import Mode
from markdown_rag.search.query import Query
from markdown_rag.store.base import Match, Store, Vector, Where

_NO_KEYWORDS = "this Milvus server has no full-text search (it came with Milvus 2.5)."


class QueryVectors(Protocol):
    """What turns a query into a normalised vector. Raises EmbeddingError."""

    def query(self, text: str) -> Vector:
        """The vector of a query."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """What both legs found, each best first. exhausted: neither leg has more to give."""

    dense: tuple[Match, ...]
    lexical: tuple[Match, ...]
    exhausted: bool

    def rows(self) -> list[Match]:
        """Every row once."""
        return list({match.id: match for match in (*self.lexical, *self.dense)}.values())

    def only(self, ids: frozenset[str] | set[str]) -> Found:
        """The rows with these ids."""
        return replace(
            self,
            dense=tuple(match for match in self.dense if match.id in ids),
            lexical=tuple(match for match in self.lexical if match.id in ids),
        )

    def joined(self, other: Found) -> Found:
        """Both findings as one, best first again, cut where this one's full list ended."""
        return replace(self, dense=_join(self.dense, other.dense), lexical=_join(self.lexical, other.lexical))


class Legs:
    """Both searches of one query over one store."""

    def __init__(
        self, store: Store, embeddings: QueryVectors | None, query: Query, pool: Executor, mode: Mode = Mode.HYBRID
    ) -> None:
        self._store = store
        self._embeddings = embeddings
        self._query = query
        self._pool = pool
        self._vector: Vector | None = None
        self._failed: dict[str, FastRagError] = {}
        self._keywords = store.capabilities().lexical
        self._mode = mode
        self.dense_used = embeddings is not None and mode is not Mode.LEXICAL
        self.lexical_used = self._keywords and bool(query.tokens) and mode is not Mode.DENSE

    def find(self, where: Where, limit: int) -> Found:
        """At most limit rows of each leg. Raises what stopped the legs when none is left."""
        waiting = self._pool.submit(self._find_lexical, where, limit) if self.lexical_used else None
        try:
            dense = self._try_dense(where, limit) if self.dense_used else []
        finally:
            lexical = self._finish(waiting)
        if not self.dense_used and not self.lexical_used:
            self._raise_what_stopped_both()
        return Found(tuple(dense), tuple(lexical), len(dense) < limit and len(lexical) < limit)

    @property
    def degraded(self) -> str:
        """One sentence when a way of searching was not used though it was asked for, else ""."""
        if not self.dense_used and self._mode is not Mode.LEXICAL:
            error = self._failed.get("dense")
            reason = str(error) if error else "No embedding model is available."
            return f"Keyword matches only: {reason}"
        if not self._keywords:
            return f"Similarity only: {_NO_KEYWORDS}"
        if "lexical" in self._failed:
            return f"Similarity only: {self._failed['lexical']}"
        return ""

    def _find_lexical(self, where: Where, limit: int) -> list[Match]:
        return self._store.lexical(" ".join(self._query.tokens), limit, where)

    def _try_dense(self, where: Where, limit: int) -> list[Match]:
        try:
            if self._vector is None and self._embeddings is not None:
                self._vector = self._embeddings.query(self._query.text)
            return [] if self._vector is None else self._store.dense(self._vector, limit, where)
        except (EmbeddingError, StoreError) as error:
            self._failed["dense"] = error
            self.dense_used = False
            return []

    def _finish(self, waiting: Future[list[Match]] | None) -> list[Match]:
        if waiting is None:
            return []
        try:
            return waiting.result()
        except StoreError as error:
            self._failed["lexical"] = error
            self.lexical_used = False
            return []

    def _raise_what_stopped_both(self) -> None:
        """Nothing is raised where keywords alone were asked for and the query simply has none."""
        by_weight = sorted(self._failed.values(), key=lambda error: not isinstance(error, StoreError))
        if by_weight:
            raise by_weight[0]
        if self._mode is not Mode.LEXICAL:
            raise EmbeddingError(
                "The query has no word to look up, and no embedding model is available.", "Use letters or digits."
            )
        if not self._keywords:
            raise StoreError(f"Keywords cannot be searched for: {_NO_KEYWORDS}", "Search in another mode.")


def _join(ours: Sequence[Match], theirs: Sequence[Match]) -> tuple[Match, ...]:
    worst = ours[-1].score if ours else float("-inf")
    rows = {match.id: match for match in ours}
    rows.update((match.id, match) for match in theirs if match.score >= worst)
    return tuple(sorted(rows.values(), key=lambda match: -match.score))
