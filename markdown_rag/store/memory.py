"""A store in memory: Milvus's contract over a dictionary, exact; for tests, and the model they compare with."""

from __future__ import annotations

import heapq
import math
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from markdown_rag.store import schema
from markdown_rag.store.base import (
    EVERYTHING,
    Capabilities,
    FileEntry,
    FileLinks,
    Health,
    Match,
    Model,
    Record,
    RowKey,
    Vector,
    Where,
)
from markdown_rag.store.capabilities import BM25_B, BM25_K1
from markdown_rag.store.filters import matcher
from markdown_rag.store.rows import Row, reading_order, to_entry, to_key, to_links, to_match, to_record, to_row


class MemoryStore:
    """All rows in one dictionary by id. Implements Store."""

    def __init__(self, model: Model, prefix: str = "markdown_vectors", *, lexical: bool = True) -> None:
        self._model = model
        self._name = schema.collection_name(prefix, model)
        self._lexical = lexical
        self._rows: dict[str, Row] = {}
        self._changes = 0
        self._lock = threading.Lock()

    @property
    def model(self) -> Model:
        """The model this store was opened for."""
        return self._model

    @property
    def collection(self) -> str:
        """The collection's name."""
        return self._name

    def capabilities(self) -> Capabilities:
        """Everything, unless made without lexical search."""
        return Capabilities("memory", "1", lexical=self._lexical, embedded=True)

    def ensure(self) -> None:
        """Nothing to create."""

    def identity(self) -> str:
        """Always the same: it lives as long as this object."""
        return self._name

    def insert(self, records: Sequence[Record]) -> None:
        """Store rows; the same id again replaces."""
        rows = [to_row(record, self._model.dimension)[0] for record in records]
        with self._lock:
            self._rows.update((row["id"], row) for row in rows)
            self._changes += bool(rows)

    def delete(self, ids: Sequence[str]) -> None:
        """Remove rows by id."""
        with self._lock:
            for id_ in ids:
                self._rows.pop(id_, None)
            self._changes += bool(ids)

    def flush(self) -> None:
        """Nothing to do."""

    def catalog(self, where: Where = EVERYTHING) -> list[FileEntry]:
        """The ``ord == 0`` rows."""
        return [to_entry(row) for row in self._select(where) if row["ord"] == 0]

    def commits(self, where: Where = EVERYTHING) -> list[RowKey]:
        """Keys of the ``ord == 0`` rows."""
        return [to_key(row) for row in self._select(where) if row["ord"] == 0]

    def links(self, where: Where = EVERYTHING) -> list[FileLinks]:
        """The rows that carry links."""
        return [to_links(row) for row in self._select(where) if row["links"]]

    def keys(self, where: Where = EVERYTHING) -> Iterator[RowKey]:
        """Every row's key, in reading order."""
        return iter(sorted((to_key(row) for row in self._select(where)), key=reading_order))

    def rows(self, where: Where) -> Iterator[Match]:
        """The rows, in reading order."""
        return (to_match(row, 0.0) for row in self._ordered(where))

    def get(self, ids: Sequence[str]) -> list[Match]:
        """Rows by id."""
        with self._lock:
            found = [self._rows[id_] for id_ in dict.fromkeys(ids) if id_ in self._rows]
        return [to_match(row, 0.0) for row in found]

    def records(self, where: Where) -> Iterator[Record]:
        """Whole rows, in reading order."""
        return map(to_record, self._ordered(where))

    def vectors(self, where: Where) -> Iterator[tuple[RowKey, str, Vector]]:
        """Keys, text hashes and vectors, in reading order."""
        return ((to_key(row), row["text_hash"], row["vector"]) for row in self._ordered(where))

    def holding(self, text_hashes: Collection[str]) -> list[tuple[RowKey, str]]:
        """Keys and text hashes of the rows with these texts."""
        wanted = frozenset(text_hashes)
        return [(to_key(row), row["text_hash"]) for row in self._select(EVERYTHING) if row["text_hash"] in wanted]

    def dense(self, vector: Vector, limit: int, where: Where = EVERYTHING) -> list[Match]:
        """Exact inner products."""
        rows = self._select(where)
        if not rows or limit <= 0:
            return []
        scores = np.stack([row["vector"] for row in rows]) @ np.asarray(vector, dtype=np.float32)
        best = np.argsort(-scores, kind="stable")[: min(limit, schema.WINDOW)]
        return [to_match(rows[i], float(scores[i])) for i in best]

    def lexical(self, tokens: str, limit: int, where: Where = EVERYTHING) -> list[Match]:
        """Exact BM25 with the statistics of all rows."""
        if not self._lexical or limit <= 0:
            return []
        allowed = {row["id"] for row in self._select(where)}
        scored = [(score, row) for row, score in bm25(self._select(EVERYTHING), tokens.split()) if row["id"] in allowed]
        best = heapq.nlargest(min(limit, schema.WINDOW), scored, key=lambda item: item[0])
        return [to_match(row, score) for score, row in best]

    def change_count(self) -> int | None:
        """How many writes there were."""
        return self._changes

    def count(self, where: Where = EVERYTHING) -> int:
        """How many rows are stored."""
        return len(self._select(where))

    def workspaces(self) -> dict[str, int]:
        """Workspaces and their numbers of files."""
        return dict(Counter(workspace for workspace, _ in {(e.workspace, e.path) for e in self.catalog()}))

    def health(self) -> Health:
        """Always well."""
        return Health(self.capabilities(), "memory", self._name, len(self._rows))

    def close(self) -> None:
        """Nothing to let go of."""

    def _select(self, where: Where) -> list[Row]:
        with self._lock:
            rows = list(self._rows.values())
        meant = matcher(where)
        return [row for row in rows if meant(row["workspace"], row["path"])]

    def _ordered(self, where: Where) -> list[Row]:
        return sorted(self._select(where), key=lambda row: reading_order(to_key(row)))


def bm25(rows: Sequence[Row], query: Sequence[str]) -> Iterator[tuple[Row, float]]:
    """Rows that hold a query token, with Okapi BM25 over the given rows (k1 1.2, b .75, idf as in Lucene)."""
    documents = [Counter(row["lexical"].split()) for row in rows]
    lengths = [sum(document.values()) for document in documents]
    mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
    wanted = Counter(query)
    frequency = {token: sum(token in document for document in documents) for token in wanted}
    for row, document, length in zip(rows, documents, lengths, strict=True):
        score = 0.0
        for token, weight in wanted.items():
            count = document[token]
            if count:
                idf = math.log(1 + (len(rows) - frequency[token] + 0.5) / (frequency[token] + 0.5))
                norm = BM25_K1 * (1 - BM25_B + BM25_B * length / mean)
                score += weight * idf * count * (BM25_K1 + 1) / (count + norm)
        if score > 0:
            yield row, score
