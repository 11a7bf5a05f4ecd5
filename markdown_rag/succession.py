"""Which collection answers after the model was changed: the old one, until the new one holds all that it held.

Every model has a collection of its own (I7). While the new one is being filled, questions about a workspace go to the
old one, with the old model where it can be asked and by keywords where not, and every answer says so.
"""

# ruff: noqa: PLC0415 - the imports inside functions load numpy, which a first reply must not wait for

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markdown_rag.amounts import amount
from markdown_rag.errors import EmbeddingError, EmbeddingUnavailable, SettingsError
from markdown_rag.reading import Reading, Unreachable, open_embeddings
from markdown_rag.store.together import Turns
from markdown_rag.wiring import Parts
from markdown_rag.workspaces import Searched

if TYPE_CHECKING:
    from markdown_rag.search.legs import QueryVectors
    from markdown_rag.store.base import Model

Find = Callable[[Reading], Searched]  # which workspaces a call means, as seen from a collection


@dataclass(frozen=True, slots=True)
class Answering:
    """The collection that answers a call, and what has to be said about it ("" for nothing)."""

    reading: Reading
    note: str = ""


@dataclass(frozen=True, slots=True)
class Held:
    """What a former collection holds of a workspace: its files' paths, and how many rows."""

    collection: str
    paths: frozenset[str]
    rows: int


class Succession:
    """The collections of former models at the store's address. Thread-safe."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._turns = Turns()
        self._former: list[Reading] | None = None

    def former(self) -> list[Reading]:
        """The collections of other models that hold rows, the largest first. Looked for once, and by ``there``."""
        known = self._former
        if known is None:
            with self._turns:
                known = self._former
                if known is None:
                    known = self._former = self._look()
        return list(known)

    def there(self) -> list[Reading]:
        """Those that are there at this moment: another agent's process makes them too."""
        found = self._former = self._look()
        return list(found)

    def indexed(self) -> set[str]:
        """The ids of all workspaces with committed files, in the current collection or a former one."""
        readings = self.former()
        with contextlib.suppress(EmbeddingError):  # the former ones answer then
            readings.append(self._parts.reading)
        return set().union(*map(_workspaces, readings))

    def holding(self, workspace: str) -> list[Held]:
        """What the former collections hold of a workspace now, for those that hold anything."""
        from markdown_rag.store.base import Where

        found = []
        for each in self.there():
            if rows := each.store.count(Where(workspaces=(workspace,))):
                paths = frozenset(path for _, path in each.catalog.fresh((workspace,)).files)
                found.append(Held(each.store.collection, paths, rows))
        return found

    def clear(self, workspace: str) -> int:
        """Remove a workspace from every former collection, and those that are empty then; the number of rows."""
        from markdown_rag.store.opening import drop_if_empty

        parts, removed = self._parts, 0
        for old in self.there():
            removed += parts.indexer.clear(workspace, old.store)
            old.catalog.forget()
            drop_if_empty(parts.store_settings, old.store.model)
        self.there()
        return removed

    def answering(self, find: Find) -> Answering:
        """The collection that answers a call. Raises EmbeddingError where none can."""
        former = self.former()
        try:
            current = self._parts.reading
        except EmbeddingError as reason:
            if not former:
                raise
            return Answering(former[0], f"Answered from {_named(former[0])}: {reason}")
        if not former:
            return Answering(current)
        for old in former:
            found = find(old)
            if len(found.ids) == 1 and self._lacks(current, old, found.ids[0]):
                return Answering(old, self._until(old, current))
        searched = find(current).ids
        known = [(old, id_) for old in former for id_ in _workspaces(old) if not searched or id_ in searched]
        left = {id_ for old, id_ in known if self._lacks(current, old, id_)}
        return Answering(
            current,
            f"{amount(len(left), 'folder is', 'folders are')} indexed with a former model only." if left else "",
        )

    def _until(self, old: Reading, current: Reading) -> str:
        """How long a former collection answers, and what keeps the current one from being filled."""
        settings = self._parts.settings
        note = f"Answered from {_named(old)} until {_named(current)} is complete."
        keyless = settings.embedding_provider == "openai-compatible" or not settings.key_variable
        if keyless or settings.provider_key.get_secret_value():
            return note
        return f"{note} {settings.key_variable} is not set; without it nothing can be indexed with that model."

    def _lacks(self, current: Reading, old: Reading, workspace: str) -> bool:
        """Whether the old collection has a file of the workspace that is there still and not in the current one."""
        ids = (workspace,)
        was = {path for _, path in old.catalog.snapshot(ids).files}
        if not was or self._parts.workspaces.is_complete(workspace, current.store.collection):
            return False
        missing = was - {path for _, path in current.catalog.snapshot(ids).files}
        root = self._parts.root_of(workspace)
        return any(root is None or os.path.lexists(root / path) for path in missing)

    def _look(self) -> list[Reading]:
        from markdown_rag.store.opening import find_collections

        own = self._own_model()
        there = find_collections(self._parts.store_settings, self._parts.server)
        found = [info for info in there if info.rows and own != _meaning(info.model)]
        return [self._open(info.model) for info in sorted(found, key=lambda info: info.rows, reverse=True)]

    def _open(self, model: Model) -> Reading:
        """A former collection, opened once."""
        from markdown_rag.store.opening import open_store

        parts = self._parts
        store = parts.once(f"store {model}", lambda: open_store(parts.store_settings, model))
        return parts.once(f"former {model}", lambda: parts.reading_of(store, self._vectors(model)))

    def _own_model(self) -> tuple[str, str, int]:
        """The chosen model; dimension 0 where it cannot be learnt now."""
        from markdown_rag.embeddings.registry import create_embedder
        from markdown_rag.policies import embedding_settings

        try:
            return _meaning(self._parts.store.model)
        except EmbeddingError:
            card = create_embedder(embedding_settings(self._parts.settings)).card
            return card.provider, card.model, card.dimension

    def _vectors(self, model: Model) -> QueryVectors:
        """The former model, if these settings can still reach it."""
        # A model that nobody named is called after its server, and is that of no other (see Provider.card_of_server).
        name = "" if model.provider == "openai-compatible" and "@" in model.model else model.model
        former = {"embedding_provider": model.provider, "embedding_model": name, "embedding_dim": model.dimension}
        chosen = self._parts.settings.model_copy(update=former)
        try:
            vectors = self._parts.once(f"embeddings {model}", lambda: open_embeddings(chosen, self._parts.clock))
            card = vectors.card
        except (EmbeddingError, SettingsError) as error:
            return Unreachable(EmbeddingUnavailable(f"The former model {model.model} cannot be asked: {error}"))
        if (card.provider, card.model, card.dimension) == _meaning(model):
            return vectors
        return Unreachable(EmbeddingUnavailable(f"The former model {model.model} cannot be reached any more."))


def _workspaces(reading: Reading) -> set[str]:
    return {workspace for workspace, _ in reading.catalog.snapshot().files}


def _meaning(model: Model) -> tuple[str, str, int]:
    return model.provider, model.model, model.dimension


def _named(reading: Reading) -> str:
    model = reading.store.model
    return f"the index of {model.provider} {model.model} ({model.dimension} dimensions)"
