"""The way to the store, step by step, until one step fails: where, network, TLS, credentials, database, rows, a search.

No collection is made on the way; the embedded engine is started, where it is the store. Each step says what it found,
or what is wrong and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from markdown_rag.amounts import amount
from markdown_rag.errors import StoreError
from markdown_rag.store import schema
from markdown_rag.store.base import Model, Store
from markdown_rag.store.milvus import Session
from markdown_rag.store.opening import StoreSettings, open_store
from markdown_rag.store.sockets import greet_tls, reach
from markdown_rag.store.target import Target

_NO_WAIT_S = 0.0  # who looks wants to know how it is now


@dataclass(frozen=True, slots=True)
class Step:
    """One look. detail: what was found, or the error."""

    name: str
    ok: bool
    detail: str


def check(settings: StoreSettings, model: Model | None) -> Generator[Step]:
    """The steps in order; the first that fails is the last. model: whose collection is looked into, if it is known."""
    settings = replace(settings, wait_s=_NO_WAIT_S)
    try:
        target = settings.target()
    except StoreError as error:
        yield Step("address", False, str(error))
        return
    yield Step("address", True, _address(target))
    with closing(settings.session()) as session:
        looks: list[tuple[str, Callable[[], str]]] = []
        if "://" in target.address and target.data_dir is None:
            looks += [("network", lambda: reach(target.address, target.given)), ("TLS", lambda: _tls(target))]
        looks += [
            ("credentials", lambda: _version(session)),
            ("database", lambda: _collections(session, target)),
        ]
        if not (yield from _steps(looks)) or model is None:
            return
    with closing(open_store(settings, model)) as store:
        yield from _steps([("collection", lambda: _rows(store)), ("search", lambda: _search(store))])


def _steps(looks: list[tuple[str, Callable[[], str]]]) -> Generator[Step, None, bool]:
    """Look until one fails; whether none did."""
    for name, look in looks:
        try:
            yield Step(name, True, look())
        except StoreError as error:
            yield Step(name, False, str(error))
            return False
    return True


def _address(target: Target) -> str:
    if target.data_dir is not None:
        return f"the embedded engine over {target.data_dir}"
    return target.shown + (f", database {target.database}" if target.database else "")


def _tls(target: Target) -> str:
    if not target.address.lower().startswith("https://"):
        return "none asked for: the network sees what is sent"
    return greet_tls(target.address, target.shown, target.ca_file, target.given)


def _version(session: Session) -> str:
    found = session.capabilities()
    able = "keywords and vectors" if found.lexical else "vectors only (keyword search needs Milvus 2.5)"
    return f"accepted; {found.engine} {found.version}: {able}"


def _collections(session: Session, target: Target) -> str:
    names = session.call(lambda client, seconds: client.list_collections(timeout=seconds))
    ours = sum(schema.model_of(session.describe(name)["properties"]) is not None for name in names)
    return f"{target.database or 'the default one'}: {amount(ours, 'collection')} of ours among {len(names)}"


def _rows(store: Store) -> str:
    return f"{store.collection}: {amount(store.count(), 'row')}"


def _search(store: Store) -> str:
    probe = np.full(store.model.dimension, store.model.dimension**-0.5, dtype=np.float32)
    found = store.dense(probe, 1)
    if not found:
        return "nothing is indexed yet"
    words = found[0].lexical.split()[:1]
    if store.capabilities().lexical and words:
        return f"vectors and keywords answer ({len(store.lexical(words[0], 1))} and {amount(len(found), 'hit')})"
    return "vectors answer"
