"""The small rules of the store: turns, batches, names, versions, addresses, what an exception means, posting lists."""

from __future__ import annotations

import errno
import os
import re
import string
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.errors import (
    StoreAddressError,
    StoreAuthError,
    StoreError,
    StoreFormatError,
    StoreLimitError,
    StoreUnavailable,
)
from markdown_rag.store import schema
from markdown_rag.store.base import record_id
from markdown_rag.store.disk import disk_failure
from markdown_rag.store.failures import TAKEN_AWAY, Kind, Symptoms, diagnose
from markdown_rag.store.given import OF_TARGET
from markdown_rag.store.milvus import Session
from markdown_rag.store.postings import Postings, best
from markdown_rag.store.rwlock import ReadersFirstLock
from markdown_rag.store.target import Target, target_of
from tests.waiting import SECONDS, eventually, joined

from .conftest import MODEL


def test_readers_share_a_turn_and_a_writer_has_it_alone():
    lock = ReadersFirstLock()
    both = threading.Barrier(2, timeout=SECONDS)
    seen: list[str] = []

    def read() -> None:
        with lock.read():
            both.wait()  # only passes if the other reader is inside at the same time
            seen.append("read")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    joined(*readers)
    with lock.write():
        late = threading.Thread(target=lambda: seen.append(_with(lock.read)))
        late.start()
        late.join(0.05)
        assert seen == ["read", "read"]
    joined(late)
    assert seen == ["read", "read", "inside"]


def _with(turn) -> str:
    with turn():
        return "inside"


def test_a_waiting_search_goes_before_the_next_insert():
    lock = ReadersFirstLock(patience=600)
    order: list[str] = []

    def take(turn, name: str) -> None:
        with turn():
            order.append(name)

    with lock.write():
        writer = threading.Thread(target=take, args=(lock.write, "insert"))
        writer.start()
        eventually(lambda: lock._waiting_writers)
        reader = threading.Thread(target=take, args=(lock.read, "search"))
        reader.start()
        eventually(lambda: lock._waiting_readers)
    joined(writer, reader)
    assert order == ["search", "insert"]


def test_endless_searching_cannot_stop_an_insert():
    lock = ReadersFirstLock(patience=0.05)
    inserted = threading.Event()

    def search() -> None:
        while not inserted.is_set():
            with lock.read():
                inserted.wait(0.005)

    def insert() -> None:
        with lock.write():
            inserted.set()

    threads = [threading.Thread(target=search) for _ in range(3)] + [threading.Thread(target=insert)]
    for thread in threads:
        thread.start()
    assert inserted.wait(SECONDS)
    joined(*threads)


@given(st.lists(st.integers(1, 100)), st.integers(1, 10), st.integers(1, 150))
def test_batches_hold_all_rows_in_order_within_both_bounds(sizes: list[int], rows: int, limit: int):
    pieces = list(schema.batches(sizes, rows, limit))
    assert [size for piece in pieces for size in sizes[piece]] == sizes
    for piece in pieces:
        held = sizes[piece]
        assert 0 < len(held) <= rows
        assert sum(held) <= limit or len(held) == 1


def test_rows_that_are_stored_keep_their_ids_in_every_version():
    # Computed once. A row is removed by the id that is made from its file, generation and position.
    made = record_id("host:/home/me/notes", "sub/caf\u00e9.md", 1_764_500_000_000_000_000, 300)
    assert made == "427206b217115b23515b3792-187cc366ba2d4000-00012c"


_POSITIONS = st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**24 - 1))


@given(_POSITIONS, _POSITIONS)
def test_ids_of_a_file_sort_by_generation_and_position_and_fit_their_field(one: tuple[int, int], two: tuple[int, int]):
    ids = [record_id("w", "a.md", *position) for position in (one, two)]
    assert (ids[0] < ids[1]) == (one < two)
    assert all(len(id_) <= 64 for id_ in ids)


def test_the_same_path_in_another_workspace_has_another_id():
    assert len({record_id(workspace, path, 1, 0) for workspace in "vw" for path in ("a.md", "b.md")}) == 4


@given(st.text(max_size=80), st.text(max_size=300), st.text(max_size=300), st.integers(1, 4096))
def test_a_collections_name_is_valid_on_every_engine(prefix: str, provider: str, model: str, dimension: int):
    name = schema.collection_name(prefix, replace(MODEL, provider=provider, model=model, dimension=dimension))
    assert len(name) <= 255
    assert name[0] in string.ascii_letters + "_"
    assert set(name) <= set(string.ascii_letters + string.digits + "_")


def test_every_part_of_a_meaning_changes_the_name_and_comes_back_from_the_properties():
    changed = [
        replace(MODEL, provider="other"),
        replace(MODEL, model="test_model"),
        replace(MODEL, dimension=99),
        replace(MODEL, document_weight=0.0),
    ]
    names = {schema.collection_name("p", model) for model in [MODEL, *changed]}
    assert len(names) == 5
    for model in [MODEL, *changed]:
        assert schema.model_of(schema.properties(model)) == model
    assert schema.model_of({}) is None
    assert schema.model_of(schema.properties(MODEL) | {"markdown_rag.schema": "0"}) is None
    assert schema.model_of(schema.properties(MODEL) | {"markdown_rag.dimension": "x"}) is None


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://localhost:19530", "http://localhost:19530"),
        (" https://user:secret@host/db ", "https://host/db"),
        ("tcp://10.0.0.1:19530", "tcp://10.0.0.1:19530"),
        ("unix:/run/milvus.sock", "unix:/run/milvus.sock"),
        ("index.db", "/state/index.db"),
        ("/data/x.db", "/data/x.db"),
    ],
)
def test_an_address_is_a_server_or_a_directory_and_shows_no_secret(address: str, shown: str):
    target = target_of(address, "token", Path("/state"))
    assert target.shown == shown
    assert (target.data_dir is not None) == address.strip().endswith(".db")


@pytest.mark.parametrize("address", ["localhost:19530", "", "ftp://host", "/data/index", "ftp://host/x.db", "a\0.db"])
def test_what_is_no_address_is_refused_with_the_forms_that_are(address: str):
    with pytest.raises(StoreAddressError, match=r"http://host:19530"):
        target_of(address, "", Path("/state"))


@pytest.mark.parametrize(
    ("symptoms", "kind", "error"),
    [
        (Symptoms("collection not found[database=default]", 100, ""), Kind.MISSING, StoreUnavailable),
        (Symptoms("Collection 'x' is in state 'released'", 101, ""), Kind.RELEASED, StoreUnavailable),
        (Symptoms("collection 'race' already exists", 1, ""), Kind.EXISTS, StoreError),
        (Symptoms("Fail connecting to server", 2, "UNAUTHENTICATED"), Kind.FINAL, StoreAuthError),
        (Symptoms("permission deny to agent1", 65535, "PERMISSION_DENIED"), Kind.FINAL, StoreAuthError),
        (Symptoms("Fail connecting to server", 2, "UNAVAILABLE"), Kind.LOST, StoreUnavailable),
        (Symptoms("Received UNIMPLEMENTED from server", 1, "UNIMPLEMENTED"), Kind.FINAL, StoreFormatError),
        (Symptoms("message larger than max", 1, "RESOURCE_EXHAUSTED"), Kind.FINAL, StoreLimitError),
        (Symptoms("[Errno 28] Error writing bytes to file", 1, ""), Kind.FINAL, StoreUnavailable),
        (Symptoms("[Errno 30] Read-only file system: 'x'", 1, ""), Kind.FINAL, StoreUnavailable),
        (Symptoms("it says", 1, "INVALID_ARGUMENT", details=TAKEN_AWAY), Kind.LOST, StoreUnavailable),
        (Symptoms("uri: x is illegal", 1, "", illegal_address=True), Kind.FINAL, StoreAddressError),
    ],
)
def test_an_exception_of_the_library_means_one_of_our_errors(symptoms: Symptoms, kind: Kind, error: type):
    failure = diagnose(symptoms, "http://host:19530", 30)
    assert failure.kind is kind
    assert type(failure.error) is error


@pytest.mark.parametrize(
    ("symptoms", "named"),
    [
        (Symptoms("", 0, "", details="missing authorization"), "MILVUS_TARGET_TOKEN"),
        (Symptoms("Fail connecting to server", 2, "UNAUTHENTICATED"), "MILVUS_TARGET_TOKEN"),
        (Symptoms("permission deny to agent1", 65535, "PERMISSION_DENIED"), "MILVUS_TARGET_TOKEN"),
        (Symptoms("database not found[database=nodb]", 800, ""), "MILVUS_TARGET_DATABASE"),
        (Symptoms("", 0, "", details="CERTIFICATE_VERIFY_FAILED"), "MILVUS_TARGET_CA_FILE"),
        (Symptoms("", 0, "", details="Hostname Verification"), "--to"),
        (Symptoms("", 0, "", details="WRONG_VERSION_NUMBER"), "--to"),
        (Symptoms("", 0, "", details="http1"), "--to"),
        (Symptoms("", 0, "", details="Connection refused"), "--to"),
        (Symptoms("uri: x is illegal", 1, "", illegal_address=True), "--to"),
        (Symptoms(str(OSError(errno.EROFS, os.strerror(errno.EROFS))), 1, ""), "--to"),
    ],
)
def test_of_where_an_index_is_copied_to_messages_name_what_was_given_for_it(symptoms: Symptoms, named: str):
    said = str(diagnose(symptoms, "http://host:19530", 30, OF_TARGET).error)
    assert named in said
    assert not {"MILVUS_ADDRESS", "MILVUS_TOKEN", "MILVUS_DATABASE", "MILVUS_CA_FILE"} & set(re.findall(r"\w+", said))


@pytest.mark.parametrize("address", ["http://127.0.0.1:99999", "http://127.0.0.1:abc"])
def test_what_the_library_says_of_an_address_leaves_as_our_error(address: str, tmp_path: Path):
    session = Session(Target(address, "", tmp_path, None, address), 2.0)
    with pytest.raises(StoreAddressError, match="MILVUS_ADDRESS is not an address"):
        session.call(lambda client, seconds: client.list_collections(timeout=seconds))
    session.close()


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSPC, "is full"), (errno.EDQUOT, "is full"), (errno.EROFS, "only be read"), (errno.EIO, "an error")],
)
def test_what_a_disk_refuses_is_said_with_the_place_and_what_to_do(number: int, words: str):
    said = str(OSError(number, os.strerror(number), "/state/index.db/x"))
    for text in (said, os.strerror(number)):
        error = disk_failure(text, "/state/index.db")
        assert "/state/index.db" in error.message
        assert words in error.message
        assert "index again" in error.next_step
    assert disk_failure("[Errno 2] No such file or directory", "/state/index.db") is None


class Column:
    """What an Arrow column of packed rows looks like to us."""

    def __init__(self, rows: list[dict[int, float]]) -> None:
        self._rows = rows

    def to_pylist(self) -> list[bytes | None]:
        pairs = [np.array(sorted(row.items()), dtype=[("t", "<u4"), ("c", "<f4")]) for row in self._rows]
        return [pair.tobytes() if len(pair) else None for pair in pairs]


term_counts = st.dictionaries(st.sampled_from([0, 1, 2, 77, 2**32 - 1]), st.integers(1, 9).map(float), max_size=4)


@given(st.lists(term_counts, max_size=8), st.booleans())
def test_postings_know_every_row_of_a_term_sorted_or_not(rows: list[dict[int, float]], sort: bool):
    postings = Postings(Column(rows))
    if sort:
        postings.sort()
    for term in (0, 1, 2, 77, 2**32 - 1, 500):
        found, counts = postings.match(term)
        expected = {row: held[term] for row, held in enumerate(rows) if term in held}
        assert dict(zip(found.tolist(), counts.tolist(), strict=True)) == expected
    assert postings.lengths.tolist() == [sum(row.values()) for row in rows]


@given(st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=4), st.integers(1, 8))
def test_the_best_of_several_pieces_are_the_best_of_all(pieces: list[list[int]], limit: int):
    scores = [np.array(piece, dtype=float) for piece in pieces]
    found = best(scores, limit, 0.0)
    everything = sorted((score for piece in pieces for score in piece if score > 0), reverse=True)
    assert [one.score for one in found] == everything[:limit]
    assert all(pieces[one.piece][one.row] == one.score for one in found)
