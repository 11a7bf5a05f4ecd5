"""Opens a store from settings, and says what exists at an address without knowing a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from markdown_rag.store import schema
from markdown_rag.store.base import Model, Store
from markdown_rag.store.collection import MilvusStore
from markdown_rag.store.given import OF_INDEX, Given
from markdown_rag.store.milvus import Session
from markdown_rag.store.target import Target, target_of


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where the store is and how it is used.

    address: a server (``http://host:19530``) or a path ending in ``.db`` (relative: inside state_dir). token: of a
    server. prefix: first part of every collection's name. insert_batch: most rows of one request. timeout_s: limit
    of one call. state_dir: where the engine writes its log. database, ca_file: of a server ("" for the default).
    wait_s: how long a server that does not answer is waited for. given: what messages call all this.
    """

    address: str
    token: str
    prefix: str
    insert_batch: int
    timeout_s: float
    state_dir: Path
    database: str = ""
    ca_file: str = ""
    wait_s: float = 0.0
    given: Given = OF_INDEX

    def target(self) -> Target:
        """The place, or StoreAddressError."""
        return target_of(self.address, self.token, self.state_dir, self.database, self.ca_file, given=self.given)

    def session(self) -> Session:
        """A connection, made on first use; the caller closes it."""
        return Session(self.target(), self.timeout_s, self.wait_s)


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """A collection of ours at an address: its name, its model and how many rows it holds."""

    name: str
    model: Model
    rows: int


def open_store(settings: StoreSettings, model: Model) -> Store:
    """The store of a model. Does not connect yet; StoreAddressError for an address that is none."""
    rows = max(1, min(settings.insert_batch, schema.MAX_INSERT_ROWS))
    target, seconds, wait_s = settings.target(), settings.timeout_s, settings.wait_s
    return MilvusStore(target, settings.prefix, model, insert_rows=rows, seconds=seconds, wait_s=wait_s)


def drop_if_empty(settings: StoreSettings, model: Model) -> bool:
    """Drop the collection of a model if it holds no row; whether it was dropped."""
    store = open_store(settings, model)
    session = settings.session()
    try:
        if store.count():
            return False
        session.call(lambda client, seconds: client.drop_collection(store.collection, timeout=seconds))
    finally:
        store.close()
        session.close()
    return True


def find_collections(settings: StoreSettings, server: Session | None = None) -> list[CollectionInfo]:
    """Every collection of ours at the address whose name has the prefix. Makes nothing where there is nothing.

    server: a connection to the same address, which stays open; it is used where the address is a server's.
    """
    target = settings.target()
    if target.data_dir is not None and not target.data_dir.exists():
        return []
    session = settings.session() if server is None or target.data_dir is not None else server
    try:
        names = session.call(lambda client, seconds: client.list_collections(timeout=seconds))
        found = [(name, schema.model_of(session.describe(name)["properties"])) for name in sorted(names)]
    finally:
        if session is not server:
            session.close()
    infos = []
    for name, model in found:
        if model is not None and name == schema.collection_name(settings.prefix, model):
            store = open_store(settings, model)
            try:
                infos.append(CollectionInfo(name, model, store.count()))
            finally:
                store.close()
    return infos
