"""The weights and bounds of a search: one frozen value, cut from the settings by the app.

The ranking weights are the measured recipe of docs/optimization.md. Setting a weight to 0 switches its step off, which
is how each step's effect is measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

MAX_K = 50
MAX_QUERY_CHARACTERS = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPolicy:
    """How candidates are fetched, ordered and shown.

    over_fetch, min_candidates: each leg is asked for max(min_candidates, over_fetch * k) chunks.
    max_candidates: the most a leg is ever asked for while refilling (the strictest engine's window is 16,384).
    per_file: hits of one file in an answer; 0 = no limit.
    lexical_weight, dense_weight, title_weight: the three parts of a chunk's ranking sum.
    gate_full, gate_top: the coverage beyond one word at which keywords and titles count in full, and how many of the
    best keyword chunks are looked at for it. coordination: how much of a chunk's keyword part depends on how many of
    the query's words it holds itself, 0 to 1.
    dense_spread: the least distance between best and worst similarity that stretches to the full scale, in the
    model's own units (see relevance.DenseScale); None takes the model's.
    second_chunk: what a file's second-best chunk adds. identifier_words: queries of at most this many words may be
    identifiers; identifier_exact, identifier_dense: the weights of the name as written and of similarity in them.
    excerpt_bytes: UTF-8 bytes of an excerpt. hash_bytes: the largest file that is read to tell whether it changed.
    threads: keyword searches that run beside their dense ones at the same time, over all callers.
    """

    over_fetch: int = 5
    min_candidates: int = 100
    max_candidates: int = 8_000
    per_file: int = 1
    lexical_weight: float = 0.7
    dense_weight: float = 0.3
    title_weight: float = 0.4
    gate_full: float = 0.6
    gate_top: int = 3
    coordination: float = 0.3
    dense_spread: float | None = None
    second_chunk: float = 0.1
    identifier_words: int = 3
    identifier_exact: float = 1.0
    identifier_dense: float = 0.001
    excerpt_bytes: int = 700
    hash_bytes: int = 16 * 1024 * 1024
    threads: int = 8

    def candidates(self, k: int) -> int:
        """How many chunks each leg is asked for at first."""
        return max(self.min_candidates, self.over_fetch * k)

    def one_leg(self) -> SearchPolicy:
        """The same without the steps that are ours: what a leg alone answers, to compare with."""
        return replace(self, title_weight=0.0, second_chunk=0.0, coordination=0.0, identifier_words=0)
