"""What is asked and what is answered: values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from markdown_rag.search.freshness import Freshness
from markdown_rag.store.base import EVERYTHING, Where


class Mode(StrEnum):
    """Which legs of a search are asked: both, or one alone to compare with."""

    HYBRID = "hybrid"
    LEXICAL = "lexical"
    DENSE = "dense"


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A question. k: hits wanted, 1 to 50 (more is cut to 50 and said). where: what may be found.

    per_file: hits of one file, None for the policy's. mode: which legs are asked. diverse: hits that say different
    things come first. waited: what changed was indexed just before, so that no advice names that.
    """

    query: str
    k: int = 5
    where: Where = EVERYTHING
    per_file: int | None = None
    mode: Mode = Mode.HYBRID
    diverse: bool = False
    waited: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """A cited passage.

    path: relative to its workspace; absolute: on this machine, "" where the workspace is elsewhere. heading_path:
    "A › B", what the excerpt stands under. start_line, end_line: the chunk in the file, or the excerpt where that alone
    still stands there; the excerpt's own lines beside them; all 1-based, inclusive, and where the text stands now if it
    moved; indexed_line: where the excerpt began when it was indexed. same_in: paths whose passages say the same and are
    not shown, each with how (copies.Copy); whole paths in other workspaces.
    start_byte, end_byte: the chunk in the file as it was indexed, end exclusive. score: 0 to 1, comparable between
    queries. parts: what it and the order are made of (coverage, similarity, and the ranking's lexical, dense, title and
    order).
    """

    id: str
    workspace: str
    path: str
    absolute: str
    title: str
    heading_path: str
    ord: int
    text_hash: str
    start_line: int
    end_line: int
    start_byte: int
    end_byte: int
    excerpt: str
    excerpt_start_line: int
    excerpt_end_line: int
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    score: float
    parts: Mapping[str, float]
    freshness: Freshness
    indexed_line: int
    same_in: tuple[str, ...] = ()


class EmptyReason(StrEnum):
    """Why an answer has no hit."""

    NOTHING_INDEXED = "nothing_indexed"
    UNKNOWN_SCOPE = "unknown_scope"
    NO_MATCH = "no_match"
    NOTHING_RELEVANT = "nothing_relevant"


@dataclass(frozen=True, slots=True)
class Empty:
    """Why there is no hit, and what to do."""

    reason: EmptyReason
    message: str


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Hits, best first, and what was searched.

    total_files, total_chunks: what the scope holds (a few seconds old at most). more: there are further hits behind
    the last. best_score: of the surest hit, or where none is relevant of the surest chunk that is not shown; 0 without
    one. degraded: which way of searching was not used and why, "" if none. notes: what was cut or could not be checked.
    empty: set when there is no hit.
    """

    hits: tuple[Hit, ...]
    where: Where
    total_files: int
    total_chunks: int
    more: bool
    best_score: float
    degraded: str = ""
    notes: tuple[str, ...] = ()
    empty: Empty | None = None
