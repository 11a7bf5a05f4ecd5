"""BM25 over rows in several pieces, with the statistics of all of them.

The embedded engine stores for every row the terms of its ``lexical`` text and their counts, and scores each segment
with statistics of its own, in Python: a word that is rare everywhere but common in one segment is judged differently
there, and 25,000 rows cost 30 ms. Here the counts of all living rows are added up first, so that the ranking does not
depend on how rows happen to lie in segments, and the work is done on arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from markdown_rag.store.capabilities import BM25_B, BM25_K1

Mask = npt.NDArray[np.bool_]
_ENTRY = np.dtype([("term", "<u4"), ("count", "<f4")])  # as the engine packs a row: sorted by term


class Postings:
    """Which rows of one piece hold a term, and how often.

    packed: an Arrow column of binary values, each a row's entries. Sorting by term costs about 0.1 us an entry and is
    done by sort(), once; before that, match looks through all entries, which suits pieces that change with every write.
    """

    def __init__(self, packed: Any) -> None:
        terms, counts, rows, self.lengths = _entries(packed)
        self._terms, self._counts, self._rows = terms, counts, rows
        self._sorted = False

    def sort(self) -> None:
        """Order the entries by term: match is a binary search from then on."""
        if not self._sorted:
            order = np.argsort(self._terms, kind="stable")
            # A reader may be looking through the unsorted arrays right now: replace, never change in place.
            sorted_ = (self._terms[order], self._counts[order], self._rows[order])
            self._terms, self._counts, self._rows = sorted_
            self._sorted = True

    def match(self, term: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """The rows that hold the term, each once, and its counts there."""
        is_sorted, terms, counts, rows = self._sorted, self._terms, self._counts, self._rows
        if not is_sorted:
            found = np.flatnonzero(terms == np.uint32(term))
            return rows[found], counts[found]
        start, end = np.searchsorted(terms, np.array([term, term + 1], dtype=np.uint64))
        return rows[start:end], counts[start:end]


def _entries(packed: Any) -> tuple[Any, Any, Any, npt.NDArray[np.float32]]:
    values = packed.to_pylist()
    sizes = np.array([len(value) // _ENTRY.itemsize if value else 0 for value in values], dtype=np.int64)
    entries = np.frombuffer(b"".join(value for value in values if value), dtype=_ENTRY)
    rows = np.repeat(np.arange(len(values), dtype=np.int32), sizes)
    counts = np.ascontiguousarray(entries["count"])
    lengths = np.bincount(rows, weights=counts, minlength=len(values)).astype(np.float32)
    return np.ascontiguousarray(entries["term"]), counts, rows, lengths


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one segment. living: rows that exist; wanted: those of them that a search may find."""

    postings: Postings
    living: Mask
    wanted: Mask


@dataclass(frozen=True, slots=True)
class Scored:
    """A row found: its piece, its position there, its score."""

    piece: int
    row: int
    score: float


def best_keyword_matches(pieces: Sequence[Piece], query: Mapping[int, float], limit: int) -> list[Scored]:
    """The rows with the best Okapi BM25 score for the query's terms (term: weight), best first.

    Statistics are those of all living rows of all pieces, whatever may be found. k1 1.2, b .75, idf as in Lucene.
    """
    rows = sum(int(piece.living.sum()) for piece in pieces)
    if not rows:
        return []
    length = sum(float(piece.postings.lengths[piece.living].sum()) for piece in pieces) / rows or 1.0
    scores = [np.zeros(len(piece.living)) for piece in pieces]
    for term, weight in query.items():
        found = [piece.postings.match(term) for piece in pieces]
        holding = sum(int(piece.living[where].sum()) for piece, (where, _) in zip(pieces, found, strict=True))
        idf = math.log(1 + (rows - holding + 0.5) / (holding + 0.5))
        for piece, total, (where, counts) in zip(pieces, scores, found, strict=True):
            norm = BM25_K1 * (1 - BM25_B + BM25_B * piece.postings.lengths[where] / length)
            total[where] += weight * idf * counts * (BM25_K1 + 1) / (counts + norm)
    return best([np.where(piece.wanted, total, 0.0) for piece, total in zip(pieces, scores, strict=True)], limit, 0.0)


def best(scores: Sequence[npt.NDArray[Any]], limit: int, floor: float = -math.inf) -> list[Scored]:
    """The limit largest scores above floor over all pieces, largest first; equal ones in the order of their rows."""
    found: list[Scored] = []
    for piece, values in enumerate(scores):
        rows = np.flatnonzero(values > floor)
        if len(rows) > limit:
            rows = rows[np.argpartition(-values[rows], limit - 1)[:limit]]
        found.extend(Scored(piece, int(row), float(values[row])) for row in rows)
    found.sort(key=lambda one: (-one.score, one.piece, one.row))
    return found[:limit]
