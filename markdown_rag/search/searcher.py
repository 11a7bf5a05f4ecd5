"""A question in, cited passages out.

query → both legs → newest generations → one ranking → per-file limit → refill while hits are missing → excerpts →
freshness. Guarantees: k hits whenever k exist, nothing that was replaced or is unfinished, every answer bounded, and
an empty one explained. Thread-safe; many searches run at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from markdown_rag.errors import InputError
from markdown_rag.search import emptiness
from markdown_rag.search.answer import Empty, Hit, Mode, SearchAnswer, SearchRequest
from markdown_rag.search.catalog import Catalog, Snapshot
from markdown_rag.search.collecting import Collected, Collector, in_turn
from markdown_rag.search.diversity import diversify
from markdown_rag.search.freshness import Freshness
from markdown_rag.search.hits import Places, Roots, make_hit
from markdown_rag.search.legs import Legs, QueryVectors
from markdown_rag.search.policy import MAX_K, SearchPolicy
from markdown_rag.search.query import Query, prepare
from markdown_rag.search.ranking import Placed
from markdown_rag.search.relevance import dense_scale, falling, relevance
from markdown_rag.search.reranking import Reranker, reranked
from markdown_rag.store.base import Store

_CHOICE = 4  # times k: what a diverse answer is chosen from

__all__ = ["Hit", "SearchAnswer", "SearchPolicy", "SearchRequest", "Searcher"]


class Searcher:
    """Answers questions from one store.

    roots: where a workspace is on this machine, None if it is elsewhere. embeddings None searches by keywords only.
    """

    def __init__(
        self,
        store: Store,
        embeddings: QueryVectors | None,
        catalog: Catalog,
        *,
        roots: Roots,
        policy: SearchPolicy,
        reranker: Reranker | None = None,
    ) -> None:
        self._store = store
        self._embeddings = embeddings
        self._catalog = catalog
        self._roots = roots
        self._policy = policy
        self._reranker = reranker
        self._scale = dense_scale(store.model)
        self._pool = ThreadPoolExecutor(policy.threads, thread_name_prefix="search")

    def search(self, request: SearchRequest) -> SearchAnswer:
        """The best passages for a query.

        Raises InputError; StoreError where the store fails; EmbeddingError where keywords cannot stand in.
        """
        if request.k < 1:
            raise InputError(f"k must be from 1 to {MAX_K}, not {request.k}.", "Leave it out for 5.")
        policy = self._policy_of(request)
        query, k = prepare(request.query, policy), min(request.k, MAX_K)
        places = Places(self._roots)
        collectors = [self._collector(asked, request, policy, places) for asked in (query, *query.parts)]
        reranker = self._reranker if request.mode is Mode.HYBRID else None
        wanted = max(k * _CHOICE if request.diverse else k, policy.rerank_top if reranker else 0)
        found = in_turn([one.collect(request.where, wanted) for one in collectors], policy, places, wanted)
        placed, note = reranked(query.text, found.placed, reranker, policy)
        placed = diversify(placed, k, policy.likeness_cost) if request.diverse else placed[:k]
        hits = tuple(
            make_hit(
                item, places, policy, self._scale, copies=found.copies.get(item.match.id, ()), first=item is placed[0]
            )
            for item in placed
        )
        if not request.diverse:  # where hits stand by what they add
            scores = falling(hit.score for hit in hits)
            hits = tuple(replace(hit, score=score) for hit, score in zip(hits, scores, strict=True))
        best = max((hit.score for hit in hits), default=self._surest(found.passed_over))
        workspaces = request.where.workspaces
        snapshot = self._catalog.snapshot(workspaces) if hits else self._catalog.fresh(workspaces)
        files, chunks = snapshot.totals(request.where)
        return SearchAnswer(
            hits=hits,
            where=request.where,
            total_files=files,
            total_chunks=chunks,
            more=found.more or len(found.placed) > len(placed),
            best_score=best,
            degraded=next((one.legs.degraded for one in collectors if one.legs.degraded), ""),
            notes=tuple(_notes(request, query, hits, note)),
            empty=None if hits else _empty(found, snapshot, request, best),
        )

    def _collector(self, query: Query, request: SearchRequest, policy: SearchPolicy, places: Places) -> Collector:
        legs = Legs(self._store, self._embeddings, query, self._pool, request.mode)
        return Collector(legs, self._catalog, query, policy, places, self._scale)

    def _surest(self, placed: Iterable[Placed]) -> float:
        scores = (relevance(item.chunk.coverage, item.chunk.candidate.dense, self._scale) for item in placed)
        return max(scores, default=0.0)

    def _policy_of(self, request: SearchRequest) -> SearchPolicy:
        policy = self._policy if request.mode is Mode.HYBRID else self._policy.one_leg()
        return policy if request.per_file is None else replace(policy, per_file=request.per_file)

    def close(self) -> None:
        """End the threads. Safe to call twice."""
        self._pool.shutdown(wait=True)


def _empty(found: Collected, snapshot: Snapshot, request: SearchRequest, best: float) -> Empty:
    if found.passed_over:
        return emptiness.nothing_relevant(snapshot, request.where, best, waited=request.waited)
    return emptiness.explain(snapshot, request.where, waited=request.waited)


def _notes(request: SearchRequest, query: Query, hits: Sequence[Hit], note: str) -> Iterable[str]:
    behind = _behind([hit.freshness for hit in hits], waited=request.waited)
    yield from filter(None, (query.note, note, behind))
    if request.k > MAX_K:
        yield f"k was cut to {MAX_K}."
    unchecked = [hit.path for hit in hits if hit.freshness is Freshness.UNCHECKED]
    if unchecked:
        yield f"Not compared with the disk (too large or not readable): {', '.join(unchecked[:3])}" + (
            f" and {len(unchecked) - 3} more." if len(unchecked) > 3 else "."
        )


def _behind(found: Sequence[Freshness], *, waited: bool) -> str:
    """What to do where the disk is ahead of the index; "" where no hit shows that it is."""
    counts = [(found.count(each), each) for each in (Freshness.CHANGED, Freshness.DELETED)]
    told = " and ".join(f"{count} {each}" for count, each in counts if count)
    if not told:
        return ""
    again = "" if waited else ", or search again with wait_for_fresh=true"
    return f"The index is behind the disk ({told}): call index_documents{again}."
