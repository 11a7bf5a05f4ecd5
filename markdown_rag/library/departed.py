"""A document that an id names, also where it goes by another name since, or is gone.

An index run notes which files leave the index. From that note the file is found that goes on with the text: the one
with the same bytes or all of the words, through several renames if need be, or else the one that holds the passage, or
most of the texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from markdown_rag.errors import StateError
from markdown_rag.indexing.departures import Departure
from markdown_rag.indexing.statcache import StatCache
from markdown_rag.library.finding import by_digest
from markdown_rag.library.passages import Continuation, PassageId
from markdown_rag.library.reader import ReadAnswer, Reader, ReadRequest
from markdown_rag.paths import file_digest
from markdown_rag.search.catalog import Catalog, Snapshot
from markdown_rag.search.freshness import Freshness
from markdown_rag.store.base import FileEntry, Store

MOST = 0.5  # of its texts: what another file must hold to go on as it
_RENAMES = 50


@dataclass(frozen=True, slots=True)
class Meant:
    """The document that is meant. departure: under which name it left the index, None if it did not.

    is_gone: no indexed document holds its text; entry then only says what it was.
    """

    entry: FileEntry
    departure: Departure | None = None
    is_gone: bool = False

    def read(self, reader: Reader, request: ReadRequest, root: Path | None) -> ReadAnswer:
        """What is asked of it, and under which name it is read where that is another. root: of its workspace."""
        if self.is_gone:
            return self._gone()
        answer = reader.read(request, root)
        if self.departure is None:
            return answer
        note = f"What was {self.departure.path} is {self.entry.path} now."
        moved = answer.freshness is Freshness.FRESH
        return replace(answer, freshness=Freshness.MOVED if moved else answer.freshness, notes=(note, *answer.notes))

    def _gone(self) -> ReadAnswer:
        note = (
            f"{self.entry.path} was deleted, or renamed and rewritten at once: no indexed document is known to go on "
            "with its text. Search for its words: they may stand in another file now."
        )
        return ReadAnswer(self.entry, "", Freshness.DELETED, source="index", stale=True, notes=(note,))


def by_id(
    named: PassageId | Continuation, catalog: Catalog, store: Store, memory: Callable[[], StatCache]
) -> Meant | None:
    """The document of an id; None where nothing is known of it.

    memory: opens what this machine remembers; where it cannot be opened, nothing is remembered.
    """
    entry = by_digest(catalog.snapshot(), named.file)
    if entry is None:
        snapshot = catalog.fresh()
        entry = by_digest(snapshot, named.file)
    if entry is not None:
        return Meant(entry)
    try:
        chain = list(_renames(named.file, memory()))
    except StateError:
        return None
    if not chain:
        return None
    left = chain[0]
    heir = _heir(chain, named.text if isinstance(named, PassageId) else "", snapshot, store)
    was = FileEntry(left.workspace, left.path, 0, 0, "", (), (), {}, left.file_hash, "")
    return Meant(heir or was, left, is_gone=heir is None)


def _heir(chain: Sequence[Departure], text: str, snapshot: Snapshot, store: Store) -> FileEntry | None:
    """The file that goes on as one that left. text: how the hash of the wanted passage begins, "" for any."""
    for step in chain:
        entry = snapshot.files.get((step.workspace, step.successor))
        if entry is not None:
            return entry
    last = chain[-1]
    same = [entry for entry in snapshot.files.values() if entry.file_hash == last.file_hash]
    return min(same, key=lambda entry: _distance(entry, last), default=None) or _holder(last, text, snapshot, store)


def _renames(digest: str, memory: StatCache) -> Iterator[Departure]:
    """The file that left under this digest, and those that went on as it and left too."""
    for _ in range(_RENAMES):
        step = memory.departed(digest)
        if step is None:
            return
        yield step
        if not step.successor:
            return
        digest = file_digest(step.workspace, step.successor)


def _holder(left: Departure, text: str, snapshot: Snapshot, store: Store) -> FileEntry | None:
    """The file that holds a wanted text, else the one that holds most of the texts of the file that left."""
    held: Counter[tuple[str, str]] = Counter()
    wanted: set[tuple[str, str]] = set()
    for key, text_hash in store.holding(left.texts) if left.texts else ():
        file = key.workspace, key.path
        if snapshot.gens.get(file) == key.gen:
            held[file] += 1
            if text and text_hash.startswith(text):
                wanted.add(file)
    likely = wanted or {file for file, count in held.items() if count >= MOST * len(left.texts)}
    entries = [snapshot.files[file] for file in likely]
    return min(entries, key=lambda entry: (-held[entry.workspace, entry.path], _distance(entry, left)), default=None)


def _distance(entry: FileEntry, left: Departure) -> tuple[bool, bool, str, str]:
    """How unlike a file's place is to that of one that left."""
    same_name = entry.path.rpartition("/")[2] == left.path.rpartition("/")[2]
    return entry.workspace != left.workspace, not same_name, entry.path, entry.workspace
