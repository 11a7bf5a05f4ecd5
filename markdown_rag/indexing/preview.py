"""What an index run would do and cost, without writing anything or asking the provider. A scope in, counts out."""

from __future__ import annotations

from dataclasses import dataclass, field

from markdown_rag.clock import Clock, StopSignal
from markdown_rag.embeddings.service import Embeddings
from markdown_rag.indexing.guard import refusal
from markdown_rag.indexing.ignore import ScanPolicy
from markdown_rag.indexing.lending import stored_vectors
from markdown_rag.indexing.report import Problem, Progress
from markdown_rag.indexing.scan import canonical
from markdown_rag.indexing.stages import Batch, Context, Reader
from markdown_rag.indexing.statcache import StatCache
from markdown_rag.indexing.survey import survey
from markdown_rag.markdown.chunking import ChunkPolicy
from markdown_rag.paths import Scope
from markdown_rag.store.base import Store

_BATCH_CHUNKS = 1000


@dataclass(slots=True)
class Preview:
    """new, modified, deleted, unchanged: files, by path where they change.

    chunks: of the files to be written. cached: those whose vector is known, or equal to one counted before.
    texts_to_embed, tokens_to_embed: what the provider would be sent (tokens of cl100k, an estimate for other models).
    refusal: why the run would stop before it changed anything, "" if it would not.
    """

    new: list[str] = field(default_factory=list)
    modified: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    unchanged: int = 0
    chunks: int = 0
    cached: int = 0
    texts_to_embed: int = 0
    tokens_to_embed: int = 0
    problems: list[Problem] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    refusal: str = ""


def preview(
    scope: Scope,
    chunking: ChunkPolicy,
    scanning: ScanPolicy,
    stop: StopSignal,
    *,
    store: Store,
    embeddings: Embeddings,
    cache: StatCache,
    clock: Clock,
    force: bool = False,
    use_cache: bool = True,
    verify: bool = False,
    confirm_deletions: bool = False,
) -> Preview:
    """Look at a scope as a run with these arguments would.

    Raises WorkspaceError, StoreError, EmbeddingError (the model's dimension is not known and cannot be), Cancelled.
    """
    found = survey(
        canonical(scope), scanning, chunking.fingerprint, stop, store=store, cache=cache, force=force, verify=verify
    )
    seen = Preview(
        deleted=sorted(entry.path for entry in found.delta.deleted),
        unchanged=len(found.delta.unchanged) + len(found.delta.skipped),
        problems=[*found.scan.problems, *found.delta.skipped],
        left_out=dict(found.scan.left_out),
    )
    if not confirm_deletions and (refused := refusal(found, stop, store=store, clock=clock)):
        seen.refusal = str(refused)
    counted: set[str] = set()
    reader = Reader(str(scope.workspace.root), chunking, Context(Progress(), stop, clock))
    for batch in reader.batches(found.delta.work, _BATCH_CHUNKS):
        _add_files(seen, batch)
        known = _without_cost(batch, store, embeddings, stop) if use_cache else set()
        _add_costs(seen, batch, known, counted)
    return seen


def _add_files(seen: Preview, batch: Batch) -> None:
    for prepared in batch.prepared:
        (seen.new if prepared.work.current is None else seen.modified).append(prepared.work.path)
    for work, _, skip in batch.skipped:
        seen.problems.append(Problem(work.path, skip.kind, skip.reason))
        if work.current is None:
            seen.unchanged += 1
        else:
            seen.modified.append(work.path)
    seen.problems += batch.failed
    seen.unchanged += len(batch.same)


def _without_cost(batch: Batch, store: Store, embeddings: Embeddings, stop: StopSignal) -> set[str]:
    """The texts of a batch whose vectors are in the cache or in the collection, by hash."""
    hashes = {chunk.text_hash for prepared in batch.prepared for chunk in prepared.document.chunks}
    known = embeddings.known(sorted(hashes)) if hashes else set()
    return known | stored_vectors(store, hashes - known, stop).keys()


def _add_costs(seen: Preview, batch: Batch, known: set[str], counted: set[str]) -> None:
    """Count texts that have no vector yet, equal ones once. counted: hashes of earlier batches; grows."""
    chunks = [chunk for prepared in batch.prepared for chunk in prepared.document.chunks]
    for chunk in chunks:
        if chunk.text_hash in known or chunk.text_hash in counted:
            seen.cached += 1
        else:
            seen.texts_to_embed += 1
            seen.tokens_to_embed += chunk.tokens
            counted.add(chunk.text_hash)
    seen.chunks += len(chunks)
