"""One collection at the end of a session: whether it is there, what it means, what it can do, and calls on it.

It is made on the first write, opened on the first read, loaded again after a server has restarted, and found missing
when somebody removed it meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from markdown_rag.errors import StoreMismatch, StoreUnavailable
from markdown_rag.store import making, schema
from markdown_rag.store.base import Capabilities, Model
from markdown_rag.store.failures import Failure, Kind
from markdown_rag.store.milvus import Session
from markdown_rag.store.together import Turns

Operation = Callable[[Any, float], Any]


class Handle:
    """The collection of that name for that model. Thread-safe."""

    def __init__(self, session: Session, name: str, model: Model) -> None:
        self.session = session
        self.name = name
        self._model = model
        self._ready = False
        self._keywords = True  # whether it was made with them: a server may have been older then
        self._turns = Turns()

    @property
    def ready(self) -> bool:
        """Whether it is known to be there."""
        return self._ready

    def capabilities(self) -> Capabilities:
        """What the server can do with this collection; connects on first use."""
        server = self.session.capabilities()
        return server if self._keywords else replace(server, lexical=False)

    def ensure(self) -> None:
        """Make the collection if it is missing and load it; StoreMismatch if it means something else."""
        with self._turns:
            if not self._exists():
                making.make(self.session, self.name, self._model)
            try:
                self._take()
            except StoreUnavailable:
                if self._exists():
                    raise
                making.make(self.session, self.name, self._model)  # it was removed between two steps
                self._take()

    def identity(self) -> str:
        """What tells the collection from the next one of its name; "" while there is none."""
        found = self.session.attempt(lambda client, seconds: client.describe_collection(self.name, timeout=seconds))
        if isinstance(found, Failure):
            if found.kind is Kind.MISSING:
                return ""
            raise found.error
        properties = found.get("properties")
        known = properties if isinstance(properties, Mapping) else {}
        return str(known.get(schema.BIRTH, "of an earlier version"))

    def open(self) -> bool:
        """Whether the collection is there; loads it the first time."""
        if not self._ready:
            with self._turns:
                if not self._ready and self._exists():
                    self._take()
        return self._ready

    def read(self, operation: Operation) -> Any:
        """The operation's result; None while there is no collection."""
        if not self.open():
            return None
        outcome = self._loaded(operation)
        if isinstance(outcome, Failure):
            if outcome.kind is Kind.MISSING:
                self._ready = False
                return None
            raise outcome.error
        return outcome

    def write(self, operation: Operation) -> None:
        """Carry out the operation. StoreUnavailable if the collection has gone."""
        outcome = self._loaded(operation)
        if isinstance(outcome, Failure):
            if outcome.kind is Kind.MISSING:
                self._ready = False
                raise StoreUnavailable(
                    f"The collection {self.name} was removed while it was written.", "Run the index again."
                ) from outcome.error
            raise outcome.error

    def _take(self) -> None:
        description = self.session.describe(self.name)
        self._check_meaning(description)
        self._keywords = any(field.get("name") == schema.SPARSE_FIELD for field in description.get("fields", ()))
        failure = making.index(self.session, self.name, self.capabilities())  # it may have been left half-made
        if failure is not None:
            raise failure.error
        self._load()
        self._ready = True

    def _exists(self) -> bool:
        found = bool(self.session.call(lambda client, seconds: client.has_collection(self.name, timeout=seconds)))
        if not found and self.session.target.data_dir is None:
            # A database that does not exist has no collections either; only a listing says so.
            self.session.call(lambda client, seconds: client.list_collections(timeout=seconds))
        return found

    def _load(self) -> None:
        self.session.call(lambda client, seconds: client.load_collection(self.name, timeout=seconds), patient=True)

    def _check_meaning(self, description: Mapping[str, Any]) -> None:
        found = schema.model_of(description.get("properties", {}))
        if found != self._model:
            what = "something else" if found is None else f"the model {found.model} ({found.dimension} dimensions)"
            raise StoreMismatch(
                f"The collection {self.name} was made for {what}, not for {self._model.model}.",
                "Set MARKDOWN_COLLECTION to another name, or drop that collection.",
            )

    def _loaded(self, operation: Operation) -> Any:
        """Run an operation; a collection that a restarted server has not loaded is loaded first."""
        outcome = self.session.attempt(operation)
        if isinstance(outcome, Failure) and outcome.kind is Kind.RELEASED:
            self._load()
            outcome = self.session.attempt(operation)
        return outcome
