"""Which rows of an embedded collection are alive, kept up as it changes, and reading them as arrays.

Milvus Lite walks every key in Python on every read (0.7 us a row and search), builds whole records of rows of which
one field was asked for, and turns the rows in memory into Python lists on every search (80 us a row). Here the same
questions are answered from its own structures (segments, tombstones, the rows in memory) with masks that are computed
once a change. Nothing is written, and every answer is the library's own: tests/store/test_living.py compares them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from markdown_rag.store.postings import Mask, Piece, Postings, Scored, best, best_keyword_matches

Filter = Callable[[Any], Mask]  # an Arrow table to the rows that pass
_POSTINGS_KEY = "markdown_rag.postings"  # in a segment's own cache, so that both end together


@dataclass(frozen=True, slots=True)
class Source:
    """One piece of a collection: a segment, or the rows in memory. vectors: float32, shape (rows, dimension)."""

    table: Any
    positions: Mapping[str, int]
    vectors: npt.NDArray[np.float32]
    living: Mask
    cache: dict[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    """The rows of a collection at one moment. Rows found are Scored by the number of their source."""

    sources: Sequence[Source] = ()
    sparse_field: str = ""

    def count(self) -> int:
        """How many rows are alive."""
        return sum(int(source.living.sum()) for source in self.sources)

    def select(self, passing: Filter | None, limit: int | None = None) -> list[Scored]:
        """Living rows that pass, in storage order."""
        wanted = self._wanted(passing)
        found = [Scored(number, int(row), 0.0) for number, mask in enumerate(wanted) for row in np.flatnonzero(mask)]
        return found[:limit]

    def locate(self, keys: Iterable[str]) -> list[Scored]:
        """The living rows with these keys, in the order of the keys."""
        found = []
        for key in keys:
            for number, source in enumerate(self.sources):
                row = source.positions.get(key)
                if row is not None and source.living[row]:
                    found.append(Scored(number, row, 0.0))
        return found

    def dense(self, query: npt.NDArray[np.float32], limit: int, passing: Filter | None) -> list[Scored]:
        """The living rows with the largest inner product, exactly."""
        scores = []
        for source, wanted in zip(self.sources, self._wanted(passing), strict=True):
            products = source.vectors @ query if wanted.any() else np.zeros(len(wanted), dtype=np.float32)
            scores.append(np.where(wanted, products, np.float32(-np.inf)))
        return best(scores, limit)

    def keywords(self, query: Mapping[int, float], limit: int, passing: Filter | None) -> list[Scored]:
        """The living rows with the best BM25 score."""
        pieces = [
            Piece(self.postings(source), source.living, wanted)
            for source, wanted in zip(self.sources, self._wanted(passing), strict=True)
        ]
        return best_keyword_matches(pieces, query, limit)

    def read(self, found: Sequence[Scored], fields: Sequence[str]) -> list[dict[str, Any]]:
        """These fields of the rows, in their order; only what was asked for is turned into Python values."""
        rows: list[dict[str, Any]] = [{} for _ in found]
        places: defaultdict[int, list[int]] = defaultdict(list)
        for place, one in enumerate(found):
            places[one.piece].append(place)
        for number, here in places.items():
            table = self.sources[number].table.select(list(fields)).take([found[place].row for place in here])
            for place, row in zip(here, table.to_pylist(), strict=True):
                rows[place] = row
        return rows

    def postings(self, source: Source) -> Postings:
        """The keyword postings of a source, made on first use."""
        known: Postings | None = source.cache.get(_POSTINGS_KEY)
        if known is None:
            known = source.cache[_POSTINGS_KEY] = Postings(source.table.column(self.sparse_field))
        return known

    def warm(self) -> None:
        """Sort the postings of everything that a search would look through entry by entry otherwise."""
        for source in self.sources:
            self.postings(source).sort()

    def _wanted(self, passing: Filter | None) -> list[Mask]:
        return [source.living & passing(source.table) if passing else source.living for source in self.sources]


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """What was in files at one moment: segments, and each deleted key with the number of its last deletion.

    signs: by which a later look sees that it is so no longer. highest: of those numbers, which only grow.
    """

    segments: tuple[Any, ...]
    removed: Mapping[str, int]
    signs: tuple[Any, ...]
    highest: int

    def key(self) -> tuple[Any, ...]:
        """The same as long as the same rows are hidden."""
        return (*self.segments, len(self.removed), self.highest)


class Living:
    """Keeps the view of one of the library's collections. Readers may ask at once; no writer may be at work.

    Whoever asks has a turn: calls by the gate, what is prepared in the background by itself (engine.py).
    """

    def __init__(self, collection: Any, vector_field: str, sparse_field: str) -> None:
        self._collection = collection
        self._vector_field = vector_field
        self._sparse_field = sparse_field
        self._lock = threading.Lock()
        self._snapshot: Stored | None = None
        self._stored_key: tuple[Any, ...] = ()
        self._stored_masks: list[Mask] = []
        self._memory_key: tuple[Any, ...] = ()
        self._view = View()

    def view(self) -> View:
        """The collection as it is now."""
        stored = self._stored()
        segments, removed, stored_key = stored.segments, stored.removed, stored.key()
        memory = self._collection._memtable  # noqa: SLF001
        memory_key = (
            memory, len(memory._insert_batches), len(memory._pk_index), len(memory._delete_index),  # noqa: SLF001
        )  # fmt: skip
        with self._lock:
            stored_changed = stored_key != self._stored_key
            if stored_changed:
                self._stored_masks = _living_in_segments(segments, removed)
                self._stored_key = stored_key
            if stored_changed or memory_key != self._memory_key:
                self._view = self._assemble(segments, memory, removed)
                self._memory_key = memory_key
            return self._view

    def remember(self) -> None:
        """Take the stored rows as they are: after every flush, before anybody reads."""
        self._take()

    def _take(self) -> Stored:
        with self._collection._maintenance_lock:  # noqa: SLF001
            signs = self._signs()
            segments, tombstones = self._collection._read_snapshot()  # noqa: SLF001 - the pinned library's own snapshot
        removed = tombstones._map  # noqa: SLF001
        with_rows = tuple(segment for segment in segments if segment.num_rows)
        self._snapshot = taken = Stored(with_rows, removed, signs, max(removed.values(), default=-1))
        return taken

    def _signs(self) -> tuple[Any, ...]:
        """What a flush (other rows in memory) or a merge (other segments, fewer tombstones) changes, at no price."""
        collection = self._collection
        return (collection._memtable, len(collection._delta_index), *collection._segment_cache.values())  # noqa: SLF001

    def _stored(self) -> Stored:
        """What is in files. While a merge holds the library's lock, what was before it: that says the same."""
        known, lock = self._snapshot, self._collection._maintenance_lock  # noqa: SLF001
        if known is None or not lock.acquire(blocking=False):
            return known or self._take()
        try:
            return known if known.signs == self._signs() else self._take()
        finally:
            lock.release()

    def _assemble(self, segments: Sequence[Any], memory: Any, tombstones: Mapping[str, int]) -> View:
        inserted = {key: place[2] for key, place in memory.pk_index_snapshot()}
        deleted = {key: entry[0] for key, entry in memory.delete_index_snapshot().items()}
        sources = []
        for segment, stored in zip(segments, self._stored_masks, strict=True):
            living = _without(stored, segment, inserted, deleted)
            sources.append(Source(segment.table, segment.pk_to_row, segment.vectors, living, segment.sparse_indexes))
        if inserted:
            sources.append(self._memory_source(memory.to_arrow_table(), segments, tombstones))
        return View(sources, self._sparse_field)

    def _memory_source(self, table: Any, segments: Sequence[Any], tombstones: Mapping[str, int]) -> Source:
        keys = table.column(self._collection.pk_field).to_pylist()
        written = table.column("_seq").to_pylist()
        living = np.ones(len(keys), dtype=bool)
        for row, (key, seq) in enumerate(zip(keys, written, strict=True)):
            newer = any(_seq_in(segment, key) > seq for segment in segments)
            living[row] = not newer and tombstones.get(key, -1) <= seq
        vectors = table.column(self._vector_field).combine_chunks()
        values = vectors.flatten().to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
        positions = {key: row for row, key in enumerate(keys)}
        return Source(table, positions, values.reshape(len(keys), -1), living, {})


def _living_in_segments(segments: Sequence[Any], tombstones: Mapping[str, int]) -> list[Mask]:
    """Rows of segments that no tombstone and no newer row with the same key hides."""
    masks = [np.ones(segment.num_rows, dtype=bool) for segment in segments]
    for segment, mask in zip(segments, masks, strict=True):
        for key, seq in tombstones.items():
            row = segment.pk_to_row.get(key)
            if row is not None and seq > segment.seqs[row]:
                mask[row] = False
    keys = set().union(*(segment.pk_to_row for segment in segments))
    if len(keys) < sum(segment.num_rows for segment in segments):
        _hide_older_twins(segments, masks)
    return masks


def _hide_older_twins(segments: Sequence[Any], masks: Sequence[Mask]) -> None:
    newest: dict[str, tuple[int, int, int]] = {}  # key -> (seq, segment, row)
    for number, segment in enumerate(segments):
        for row, (key, seq) in enumerate(zip(segment.pks, segment.seqs.tolist(), strict=True)):
            known = newest.get(key)
            if known is None or known[0] < seq:
                newest[key] = (seq, number, row)
            if known is not None:
                _, loser, hidden = min(known, (seq, number, row))
                masks[loser][hidden] = False


def _without(stored: Mask, segment: Any, inserted: Mapping[str, int], deleted: Mapping[str, int]) -> Mask:
    """The mask without the rows that the rows or deletions in memory replace; the same object if there are none."""
    hidden = [
        row
        for changes in (inserted, deleted)
        for key, seq in changes.items()
        if (row := segment.pk_to_row.get(key)) is not None and seq >= segment.seqs[row]
    ]
    if not hidden:
        return stored
    living = stored.copy()
    living[hidden] = False
    return living


def _seq_in(segment: Any, key: str) -> int:
    row = segment.pk_to_row.get(key)
    return -1 if row is None else int(segment.seqs[row])
