"""The weights and bounds of a search: one frozen value.

Every step of the ranking has a switch of its own here, so that its effect can be measured: docs/optimization.md holds
the table. RECIPE is the state the later steps are measured against.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from markdown_rag.markdown.names import MAX_FILE_BYTES

MAX_K = 50
MAX_QUERY_CHARACTERS = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPolicy:
    """How candidates are fetched, ordered and shown.

    over_fetch, min_candidates: each leg is asked for max(min_candidates, over_fetch * k) chunks.
    max_candidates: the most a leg is ever asked for while refilling (the strictest engine's window is 16,384).
    per_file: hits of one file in an answer; 0 = no limit.

    Of the query. messages: a pasted error is searched for by its message. parts: a question that asks several things
    is also searched for as so many questions, up to this number; 1 = as it stands only. entity_words: a query of at
    most this many words names a thing; a longer one asks about it. whole_words: of a query of at most this many words
    no function word is left out, for a name may be made of them ("long now", "did documents").

    Of the ranking sum. lexical_weight, dense_weight, title_weight: the three parts of a chunk. exact_name: added
    where the query is a file's name. name_likeness: how like two words must be to count in names, 1 = equal.
    folder_names: a file is also called by its folder and its name, where the query names both. opening_weight: added
    to a file's first chunk where the query asks or is the file's name. phrase_weight: for neighbouring words that are
    found side by side.
    thin_bytes: a chunk of fewer bytes counts less, down to half: what is no more than a heading or front matter
    answers nothing. second_chunk: what a file's second-best chunk adds; 0 = nothing.

    Of the trust in words. gate_full, gate_top: the coverage beyond chance at which keywords and titles count in
    full (0 = always), and how many of the best keyword chunks are looked at for it. gate_low: the coverage that
    chance gives; None = that of one word. dense_spread: the least distance between best and worst similarity that
    stretches to the full scale, in the model's own units (see relevance.DenseScale); None takes the model's.

    Of exact names. identifier_words: queries of at most this many words, function words aside, may be identifiers;
    identifier_exact, identifier_dense: the weights of the name as written and of similarity in them.

    Of the answer. rerank_top, rerank_weight: how many chunks a cross-encoder reads where one was given, and what
    its score is worth in the sum. floor: a query whose words are trusted no more than this may have no answer at
    all, if no chunk is nearer to it than the others (relevance.nothing_relevant); below 0 = every query is
    answered. likeness_cost: what a hit loses for resembling an earlier one, where a diverse answer was asked for.
    fold_copies: passages that say the same are shown once. excerpt_bytes, further_excerpt_bytes: UTF-8 bytes of the
    first excerpts and of the others. hash_bytes: the largest file that is read to tell whether it changed. threads:
    keyword searches that run beside their dense ones at the same time, over all callers.
    """

    over_fetch: int = 5
    min_candidates: int = 100
    max_candidates: int = 8_000
    per_file: int = 1
    messages: bool = True
    parts: int = 3
    entity_words: int = 3
    whole_words: int = 2
    lexical_weight: float = 0.7
    dense_weight: float = 0.3
    title_weight: float = 0.4
    exact_name: float = 0.5
    name_likeness: float = 0.5
    folder_names: bool = True
    opening_weight: float = 0.1
    phrase_weight: float = 0.2
    thin_bytes: int = 60
    second_chunk: float = 0.0
    gate_full: float = 0.6
    gate_top: int = 10
    gate_low: float | None = None
    dense_spread: float | None = None
    identifier_words: int = 3
    identifier_exact: float = 1.0
    identifier_dense: float = 0.001
    rerank_top: int = 20
    rerank_weight: float = 0.3
    floor: float = 0.2
    likeness_cost: float = 0.5
    fold_copies: bool = True
    excerpt_bytes: int = 700
    further_excerpt_bytes: int = 300
    hash_bytes: int = MAX_FILE_BYTES
    threads: int = 8

    def candidates(self, k: int) -> int:
        """How many chunks each leg is asked for at first."""
        return max(self.min_candidates, self.over_fetch * k)

    def one_leg(self) -> SearchPolicy:
        """The same without the steps that are ours: what a leg alone answers, to compare with."""
        return replace(
            self,
            title_weight=0.0,
            exact_name=0.0,
            opening_weight=0.0,
            phrase_weight=0.0,
            second_chunk=0.0,
            identifier_words=0,
            thin_bytes=0,
            messages=False,
            parts=1,
            floor=-1.0,
            fold_copies=False,
        )


RECIPE = SearchPolicy(
    messages=False,
    parts=1,
    whole_words=0,
    exact_name=0.0,
    name_likeness=1.0,
    folder_names=False,
    opening_weight=0.0,
    phrase_weight=0.0,
    thin_bytes=0,
    second_chunk=0.1,
    gate_top=3,
    gate_low=0.1,
    gate_full=0.6 / 0.9,
    identifier_exact=0.0,
    floor=-1.0,
)
