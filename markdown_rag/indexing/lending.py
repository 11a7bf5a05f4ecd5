"""Vectors that the collection holds already, found by text: what one machine paid for, no other pays for again (I13).

A stored vector is mixed with its document's, so a whole generation is read and the chunks' own vectors computed from
it. What cannot be recovered costs a call to the provider and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator

import numpy as np

from markdown_rag.clock import StopSignal
from markdown_rag.embeddings.base import Vector
from markdown_rag.embeddings.service import Embeddings
from markdown_rag.indexing.stages import Batch
from markdown_rag.indexing.vectors import own_vectors
from markdown_rag.store.base import Store, Where

_ROUNDS = 3  # a generation that turns out to be unusable leaves its texts to others, so often
_FILES_A_READ = 50

Key = tuple[str, str, int]  # workspace, path, generation


def lend(batches: Iterable[Batch], store: Store, embeddings: Embeddings, stop: StopSignal) -> Generator[Batch]:
    """The same batches; before each, its texts' vectors go from the collection into the embedding cache."""
    for batch in batches:
        hashes = {chunk.text_hash for prepared in batch.prepared for chunk in prepared.document.chunks}
        unknown = hashes - embeddings.known(sorted(hashes)) if hashes else hashes
        if unknown:
            embeddings.adopt(stored_vectors(store, unknown, stop))
        yield batch


def stored_vectors(store: Store, wanted: Collection[str], stop: StopSignal) -> dict[str, Vector]:
    """Unit chunk vectors by text hash, as far as the collection holds them. Raises StoreError, Cancelled."""
    holders: dict[Key, set[str]] = defaultdict(set)
    for row, text_hash in store.holding(wanted):
        holders[row.workspace, row.path, row.gen].add(text_hash)
    found: dict[str, Vector] = {}
    for _ in range(_ROUNDS):
        chosen = choose(holders, frozenset(wanted) - frozenset(found))
        for generation in _whole_generations(store, chosen, stop):
            found |= {name: vector for name, vector in generation.items() if name in wanted}
        for key in chosen:
            del holders[key]
    return found


def choose(holders: dict[Key, set[str]], wanted: frozenset[str]) -> list[Key]:
    """Few generations that together hold all of the wanted texts that any of them holds; most texts first. Pure."""
    left = set(wanted)
    chosen = []
    for key in sorted(holders, key=lambda key: (-len(holders[key] & wanted), key)):
        if holders[key] & left:
            chosen.append(key)
            left -= holders[key]
    return chosen


def _whole_generations(store: Store, keys: list[Key], stop: StopSignal) -> Iterator[dict[str, Vector]]:
    """The chunk vectors, by text hash, of each of these generations that is committed and whole."""
    by_workspace: dict[str, list[Key]] = defaultdict(list)
    for key in keys:
        by_workspace[key[0]].append(key)
    for workspace, mine in by_workspace.items():
        for start in range(0, len(mine), _FILES_A_READ):
            stop.check()
            some = mine[start : start + _FILES_A_READ]
            paths = tuple(sorted({path for _, path, _ in some}))
            yield from _generations(store, Where(workspaces=(workspace,), paths=paths), set(some))


def _generations(store: Store, where: Where, keys: set[Key]) -> Iterator[dict[str, Vector]]:
    counts = {(entry.workspace, entry.path, entry.gen): entry.chunk_count for entry in store.catalog(where)}
    rows: dict[Key, list[tuple[str, Vector]]] = defaultdict(list)
    for row, text_hash, vector in store.vectors(where):
        rows[row.workspace, row.path, row.gen].append((text_hash, vector))
    for key in keys & rows.keys():
        if counts.get(key) == len(rows[key]):
            own = own_vectors(np.stack([vector for _, vector in rows[key]]), store.model.document_weight)
            if own is not None:
                yield {text_hash: vector for (text_hash, _), vector in zip(rows[key], own, strict=True)}
