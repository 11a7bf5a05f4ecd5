"""What a real Milvus server does that the other engines do not: windows, aliases, several models, a probe.

Keyword search, sparse vectors and INVERTED indexes need a newer server than this one (2.3.5): see docs/testing.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from markdown_rag.clock import StopSignal
from markdown_rag.indexing.migration import migrate
from markdown_rag.store.base import EVERYTHING, Capabilities, Model, Store, Vector, Where
from markdown_rag.store.handle import Handle
from markdown_rag.store.memory import MemoryStore
from markdown_rag.store.milvus import Session
from markdown_rag.store.opening import StoreSettings, find_collections, open_store

from .conftest import DIMENSION, MODEL, record, settles, vector

pytestmark = pytest.mark.server


@contextmanager
def opened(store: Store) -> Iterator[Store]:
    try:
        yield store
    finally:
        store.close()


def paths(store: Store, query: Vector) -> list[str]:
    return [match.path for match in store.dense(query, 10)]


def test_a_hosted_service_without_keywords_gets_one_collection_without_them_and_no_other_is_left(
    milvus_server: str, tmp_path: Path
) -> None:
    """This server takes a schema with keywords without a word and fails at their index, as a service might."""

    class Hosted(Session):
        def capabilities(self) -> Capabilities:
            return Capabilities("milvus", "Zilliz Cloud Vector Database", lexical=True, embedded=False)

    session = Hosted(StoreSettings(milvus_server, "", "t", 100, 10.0, tmp_path).target(), 10.0)
    try:
        before = set(session.call(lambda client, seconds: client.list_collections(timeout=seconds)))
        handle = Handle(session, "t_hosted_probe", Model("test", "hosted", DIMENSION))
        handle.ensure()
        assert handle.capabilities().lexical is False
        after = set(session.call(lambda client, seconds: client.list_collections(timeout=seconds)))
        assert after - before == {"t_hosted_probe"}
    finally:
        session.call(lambda client, seconds: client.drop_collection("t_hosted_probe", timeout=seconds))
        session.close()


def test_more_rows_than_a_window_are_listed_counted_and_copied(milvus_server: str, tmp_path: Path) -> None:
    rows = [
        record(f"{number:05}.md", vector=np.full(DIMENSION, number, dtype=np.float32), text="", lexical="")
        for number in range(17_000)
    ]
    settings = StoreSettings(milvus_server, "", "window", 1000, 60.0, tmp_path)
    with opened(open_store(settings, MODEL)) as store:
        store.insert(rows)
        assert store.count() == len(rows)
        assert len(list(store.keys())) == len(store.catalog()) == len(rows)
        copy = MemoryStore(MODEL)
        assert migrate(store, copy, StopSignal()).files == len(rows)
        assert copy.count() == len(rows)


def test_rows_of_several_models_and_dimensions_live_side_by_side_and_no_answer_mixes_them(
    milvus_server: str, tmp_path: Path
) -> None:
    settings = StoreSettings(milvus_server, "", "mixed", 1000, 30.0, tmp_path)
    models = [
        Model("openai", "small", 16),
        Model("openai", "large", 16),
        Model("openai", "small", 8),
        Model("voyage", "small", 16),
    ]
    stores = [open_store(settings, model) for model in models]
    try:
        for number, (store, model) in enumerate(zip(stores, models, strict=True)):
            store.insert([record(f"of-{number}.md", vector=vector(number, model.dimension))])
        for number, (store, model) in enumerate(zip(stores, models, strict=True)):
            query = vector(0, model.dimension)
            settles(store, partial(paths, store, query), [f"of-{number}.md"])
            assert [entry.path for entry in store.catalog(EVERYTHING)] == [f"of-{number}.md"]
        assert {info.model for info in find_collections(settings)} == set(models)
    finally:
        for store in stores:
            store.close()


def test_an_alias_with_the_collections_name_is_read_as_the_collection(milvus_server: str, tmp_path: Path) -> None:
    """Somebody who swaps a rebuilt collection in by an alias is understood."""
    settings = StoreSettings(milvus_server, "", "swapped", 1000, 30.0, tmp_path)
    with opened(open_store(settings, MODEL)) as first:
        first.insert([record("a.md")])
        name, session = first.collection, settings.session()
    try:
        session.call(lambda client, _: client.rename_collection(name, f"{name}_rebuilt"))
        session.call(lambda client, _: client.create_alias(f"{name}_rebuilt", name))
        with opened(open_store(settings, MODEL)) as again:
            assert [entry.path for entry in again.catalog(Where())] == ["a.md"]
            again.insert([record("b.md")])
            assert again.count() == 2
    finally:
        session.close()
