"""The stages of a run that write nothing: files to read in, batches of chunked files out, then with their vectors.

Memory holds a batch or two, whatever the size of the vault. Batches begin small, so that the first files are searchable
after seconds, and grow to what keeps a provider's concurrent requests busy.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

from markdown_rag.amounts import amount
from markdown_rag.clock import Clock, StopSignal
from markdown_rag.embeddings.service import DocumentOutcome, Embeddings
from markdown_rag.indexing.chunker import Chunker, chunker
from markdown_rag.indexing.delta import Work
from markdown_rag.indexing.reading import NotRead, open_and_read
from markdown_rag.indexing.report import Phase, Problem, ProblemKind, Progress
from markdown_rag.indexing.scan import Seen
from markdown_rag.indexing.statcache import Noted
from markdown_rag.markdown.chunking import Chunk, ChunkPolicy, Document
from markdown_rag.markdown.decoding import Undecodable
from markdown_rag.markdown.names import MAX_FILE_BYTES
from markdown_rag.precedence import PRECEDENCE

FIRST_BATCH = 64  # chunks: about a second of the local model
BATCH_FILES = 256


@dataclass(frozen=True, slots=True)
class Context:
    """What the stages of one run share. seconds: time spent, by stage; each stage writes its own key only."""

    progress: Progress
    stop: StopSignal
    clock: Clock
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def pause(self) -> None:
        """Between two steps: give way to who waits for an answer. Raises Cancelled if somebody asked to stop."""
        self.stop.check()
        PRECEDENCE.give_way()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file that was read and chunked. noted: what is to be remembered once its rows are stored."""

    work: Work
    noted: Noted
    document: Document


@dataclass(slots=True)
class Batch:
    """What became of some files, in order.

    prepared: files with chunks. same: bytes are those stored already. skipped: readable, but nothing to store.
    failed: could not be read. postponed: over the token budget. chunks: of all prepared files. load: workload of all.
    """

    prepared: list[Prepared] = field(default_factory=list)
    same: list[tuple[Work, Noted]] = field(default_factory=list)
    skipped: list[tuple[Work, Noted, NotRead]] = field(default_factory=list)
    failed: list[Problem] = field(default_factory=list)
    postponed: list[Problem] = field(default_factory=list)
    chunks: int = 0
    load: int = 0

    @property
    def files(self) -> int:
        """How many files the batch speaks of."""
        return len(self.prepared) + len(self.same) + len(self.skipped) + len(self.failed) + len(self.postponed)


@dataclass(frozen=True, slots=True)
class Embedded:
    """A batch with its vectors: outcome.vectors holds those of all chunks, file after file; None without chunks.

    tokens: of the texts that the provider was sent, in cl100k.
    """

    batch: Batch
    outcome: DocumentOutcome | None
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file that was looked at: a problem, or what to note of it, with its bytes if they have to be chunked."""

    work: Work
    noted: Noted | None = None
    data: bytes | None = None
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads and chunks files of one workspace. root: its real path."""

    root: str
    policy: ChunkPolicy
    context: Context

    def batches(self, works: Sequence[Work], limit: int) -> Generator[Batch]:
        """Batches of about limit chunks (a larger file is a batch of its own) and at most BATCH_FILES files."""
        batch, room = Batch(), min(FIRST_BATCH, limit)
        started = self.context.clock.monotonic()
        with closing(chunker(self.policy, len(works), self.context.stop)) as documents:
            for opened in self._opened(works, documents):
                self._add(batch, opened, documents)
                if batch.chunks >= room or batch.files >= BATCH_FILES:
                    self._account(batch, started)
                    yield batch
                    batch, room = Batch(), min(room * 2, limit)
                    started = self.context.clock.monotonic()
        if batch.files:
            self._account(batch, started)
            yield batch

    def _opened(self, works: Sequence[Work], documents: Chunker) -> Iterator[_Opened]:
        """The files in order; those to be chunked were put into documents, a few ahead."""
        waiting: deque[_Opened] = deque()
        for work in works:
            self.context.pause()
            opened = self._open(work)
            waiting.append(opened)
            if opened.data is not None:
                documents.put(work.path, opened.data)
            while waiting and (documents.full or waiting[0].data is None):
                yield waiting.popleft()
        yield from waiting

    def _account(self, batch: Batch, started: float) -> None:
        self.context.progress.total_chunks += batch.chunks
        self.context.seconds["chunk"] += self.context.clock.monotonic() - started

    def _open(self, work: Work) -> _Opened:
        reading = open_and_read(self.root, work.path, work.seen.stamp, self.context.clock)
        if isinstance(reading, NotRead):
            return _Opened(work, problem=Problem(work.path, reading.kind, reading.reason))
        digest = hashlib.sha256(reading.data).hexdigest()
        noted = Noted(reading.stamp, reading.taken_ns, digest, self.policy.fingerprint)
        is_same = work.current is not None and work.current.file_hash == digest and not work.always
        return _Opened(work, noted, None if is_same else reading.data)

    def _add(self, batch: Batch, opened: _Opened, documents: Chunker) -> None:
        """Put one file where it belongs."""
        work, noted = opened.work, opened.noted
        batch.load += workload(work.seen)
        if opened.problem is not None:
            batch.failed.append(opened.problem)
        elif noted is not None and opened.data is None:
            batch.same.append((work, noted))
        elif noted is not None:
            document = documents.take()
            reason = _nothing_to_store(document)
            if reason is not None:
                batch.skipped.append((work, replace(noted, skip=reason), reason))
            elif isinstance(document, Document):
                batch.prepared.append(Prepared(work, noted, document))
                batch.chunks += len(document.chunks)


def workload(seen: Seen) -> int:
    """The bytes of a file that a run has to go through: none where it is too large to be read."""
    return seen.stamp.size if seen.stamp.size <= MAX_FILE_BYTES else 0


def _nothing_to_store(document: Document | Undecodable) -> NotRead | None:
    if isinstance(document, Undecodable):
        return NotRead(ProblemKind.NOT_TEXT, document.reason)
    if not document.chunks:
        return NotRead(ProblemKind.EMPTY, "; ".join(document.warnings) or "empty")
    return None


def embed(
    batches: Iterable[Batch], embeddings: Embeddings, context: Context, *, use_cache: bool, budget: int = 0
) -> Generator[Embedded]:
    """Batches with the vectors of their chunks.

    budget: most tokens to send (0: any number); files that do not fit are postponed, those that cost nothing never are.
    Raises EmbeddingError when the provider is beyond hope, Cancelled.
    """
    spent = 0
    for batch in batches:
        context.progress.phase = Phase.EMBED if batch.chunks else context.progress.phase
        started = context.clock.monotonic()
        prices = _tokens_to_send(batch, embeddings, use_cache=use_cache)
        if budget:
            _postpone(batch, prices, budget - spent, context.progress)
        sent = sum(prices.values())
        spent += sent
        chunks = _chunks(batch.prepared)
        reached = context.progress.processed_bytes + batch.load
        outcome = None
        if chunks:
            _waits(context.progress, "")
            outcome = embeddings.documents(
                [chunk.embed_text for chunk in chunks],
                [chunk.text_hash for chunk in chunks],
                context.stop,
                partial(_count, context.progress, batch.load / len(chunks)),
                on_trouble=partial(_waits, context.progress),
                use_cache=use_cache,
            )
            context.progress.note = ""
        context.progress.processed_bytes = reached
        context.seconds["embed"] += context.clock.monotonic() - started
        yield Embedded(batch, outcome, sent)


def _chunks(files: Iterable[Prepared]) -> list[Chunk]:
    return [chunk for prepared in files for chunk in prepared.document.chunks]


def _tokens_to_send(batch: Batch, embeddings: Embeddings, *, use_cache: bool) -> dict[str, int]:
    """Tokens of every different text of the batch that has no vector yet, by hash."""
    prices = {chunk.text_hash: chunk.tokens for chunk in _chunks(batch.prepared)}
    for known in embeddings.known(list(prices)) if use_cache and prices else ():
        del prices[known]
    return prices


def _postpone(batch: Batch, prices: dict[str, int], left: int, progress: Progress) -> None:
    """Leave out, in order, each file whose texts would cost more than what is left; prices keeps what is sent."""
    sent: set[str] = set()
    kept: list[Prepared] = []
    for prepared in batch.prepared:
        hashes = {chunk.text_hash for chunk in prepared.document.chunks} & prices.keys() - sent
        cost = sum(prices[text_hash] for text_hash in hashes)
        if cost <= left:
            left -= cost
            sent |= hashes
            kept.append(prepared)
        else:
            reason = (
                f"its {amount(cost, 'token is', 'tokens are')} over what is left of the budget; the next run goes on"
            )
            batch.postponed.append(Problem(prepared.work.path, ProblemKind.BUDGET, reason))
            batch.chunks -= len(prepared.document.chunks)
            progress.total_chunks -= len(prepared.document.chunks)
    batch.prepared = kept
    for text_hash in prices.keys() - sent:
        del prices[text_hash]


def _waits(progress: Progress, trouble: str) -> None:
    """Say what is waited for; trouble: why the provider did not answer, "" while nothing speaks against it."""
    progress.note = f"{trouble.rstrip('.')}; trying again" if trouble else "waiting for the embedding provider"


def _count(progress: Progress, load: float, settled: int) -> None:
    progress.processed_chunks += settled
    progress.processed_bytes += load * settled
