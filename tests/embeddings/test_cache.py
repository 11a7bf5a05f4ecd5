"""The vector cache: lossless, shared, bounded, and never in the way."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from markdown_rag import database
from markdown_rag.clock import ManualClock
from markdown_rag.embeddings.base import ModelCard, Role, Vector
from markdown_rag.embeddings.cache import VectorCache

DAY = 86_400


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[VectorCache]:
    opened = VectorCache(tmp_path / "vectors.db")
    yield opened
    opened.close()


def named(count: int, dimension: int = 8, seed: int = 0) -> dict[str, Vector]:
    rows = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    return {hashlib.sha256(f"{seed} {i}".encode()).hexdigest(): row for i, row in enumerate(rows)}


@settings(max_examples=25)
@given(vectors=arrays(np.float32, st.tuples(st.integers(1, 5), st.integers(1, 9)), elements=st.floats(width=32)))
def test_a_vector_comes_back_bit_for_bit(vectors: np.ndarray) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cache = VectorCache(Path(folder) / "vectors.db")
        items = {str(i): vector for i, vector in enumerate(vectors)}
        cache.put("f", items)
        found = cache.get("f", list(items))
        assert {name: v.tobytes() for name, v in found.items()} == {name: v.tobytes() for name, v in items.items()}
        cache.close()


def test_what_is_not_there_is_not_in_the_answer(cache: VectorCache) -> None:
    assert cache.get("f", ["a", "b"]) == {}
    cache.put("f", {"a": np.ones(3, np.float32)})
    assert list(cache.get("f", ["a", "b"])) == ["a"]
    assert cache.known("f", ["a", "b"]) == {"a"}
    assert cache.get("f", []) == {}


@pytest.mark.parametrize(
    "other",
    [ModelCard("openai", "m", 9), ModelCard("openai", "n", 8), ModelCard("voyage", "m", 8)],
)
def test_vectors_of_two_models_or_two_roles_never_mix(cache: VectorCache, other: ModelCard) -> None:
    card = ModelCard("openai", "m", 8)
    cache.put(card.fingerprint(Role.DOCUMENT), {"a": np.ones(8, np.float32)})
    assert cache.get(card.fingerprint(Role.QUERY), ["a"]) == {}
    assert cache.get(other.fingerprint(Role.DOCUMENT), ["a"]) == {}
    assert list(cache.get(card.fingerprint(Role.DOCUMENT), ["a"])) == ["a"]


def test_thousands_of_names_are_looked_up_at_once(cache: VectorCache) -> None:
    items = named(2_300)
    cache.put("f", items)
    assert cache.count == 2_300
    found = cache.get("f", list(items))
    assert all(np.array_equal(found[name], vector) for name, vector in items.items())
    assert cache.known("f", [*items, "x"]) == set(items)


def test_a_restart_finds_everything(tmp_path: Path) -> None:
    items = named(10)
    first = VectorCache(tmp_path / "vectors.db")
    first.put("f", items)
    first.remember_dimension("m", 8)
    first.close()
    second = VectorCache(tmp_path / "vectors.db")
    assert set(second.get("f", list(items))) == set(items)
    assert second.dimension("m") == 8
    second.remember_dimension("m", 0)
    assert second.dimension("m") == 0
    second.close()


def test_the_file_stays_within_its_size_and_keeps_what_was_used_last(tmp_path: Path) -> None:
    clock, bound = ManualClock(), 2_000_000
    cache = VectorCache(tmp_path / "vectors.db", max_bytes=bound, clock=clock)
    old = named(200, 512, seed=1)
    cache.put("f", old)
    used = list(old)[:50]
    clock.advance(DAY)
    assert len(cache.get("f", used)) == 50  # used today: the youngest of the old
    for seed in range(2, 8):
        clock.advance(DAY)
        cache.put("f", named(100, 512, seed=seed))
    assert 500 < cache.count < 900
    kept = cache.known("f", list(old))
    assert set(used) <= kept
    assert len(kept) < 150
    cache.close()
    with sqlite3.connect(tmp_path / "vectors.db") as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    assert pages * size < 1.5 * bound


def test_reading_writes_nothing_on_the_same_day(tmp_path: Path) -> None:
    clock = ManualClock()
    cache = VectorCache(tmp_path / "vectors.db", clock=clock)
    items = named(20)
    cache.put("f", items)
    wal = tmp_path / "vectors.db-wal"
    before = wal.stat().st_size
    for _ in range(3):
        cache.get("f", list(items))
    assert wal.stat().st_size == before
    clock.advance(DAY)
    cache.get("f", list(items))
    assert wal.stat().st_size > before
    cache.close()


def test_what_is_kept_is_found_while_the_file_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 3_600.0)  # whoever waits for the other's lock never comes back
    clock = ManualClock()
    cache = VectorCache(tmp_path / "vectors.db", clock=clock)
    items = named(20)
    cache.put("f", items)
    clock.advance(DAY)
    other = sqlite3.connect(tmp_path / "vectors.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    found = cache.get("f", list(items))
    assert {name: vector.tobytes() for name, vector in found.items()} == {
        name: vector.tobytes() for name, vector in items.items()
    }
    assert "locked" in cache.trouble
    other.execute("ROLLBACK")
    assert cache.get("f", list(items)).keys() == items.keys()
    (days,) = other.execute("SELECT count(DISTINCT day) FROM vectors WHERE day = ?", (clock.now() // DAY,)).fetchone()
    assert days == 1  # now the use is noted
    other.close()
    cache.close()


def test_a_damaged_file_costs_calls_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    path.write_bytes(b"this is not a database" * 500)
    cache = VectorCache(path)
    items = named(5)
    assert cache.get("f", list(items)) == {}
    cache.put("f", items)
    assert set(cache.get("f", list(items))) == set(items)
    cache.close()
    assert list(tmp_path.glob("*.damaged-*"))


def test_damage_while_in_use_costs_calls_and_is_kept_for_who_asks(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    first = VectorCache(path)
    items = named(400, 64)
    first.put("f", items)
    first.close()
    content = bytearray(path.read_bytes())
    content[16_384:] = os.urandom(len(content) - 16_384)  # everything but the first page, which says what it is
    path.write_bytes(content)
    cache = VectorCache(path)
    assert cache.get("f", list(items)) == {}
    assert "vectors.db" in cache.trouble
    cache.put("f", items)
    assert set(cache.get("f", list(items))) == set(items)
    cache.close()


def test_a_closed_cache_answers_nothing_and_raises_nothing(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path / "vectors.db")
    cache.close()
    cache.close()
    cache.put("f", named(1))
    assert cache.get("f", ["a"]) == {}
    assert cache.known("f", ["a"]) == set()
    assert cache.dimension("m") == 0
    assert cache.count == 0
    cache.remember_dimension("m", 3)
    assert "closed" in cache.trouble


WRITER = """
import sys
from pathlib import Path
import numpy as np
from markdown_rag.embeddings.cache import VectorCache
cache = VectorCache(Path(sys.argv[1]))
for i in range(40):
    cache.put("f", {f"{sys.argv[2]} {i} {j}": np.full(16, j, np.float32) for j in range(10)})
    cache.put("f", {f"shared {i}": np.full(16, i, np.float32)})
print(cache.trouble, end="")
cache.close()
"""


def test_several_processes_write_one_cache_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], stdout=subprocess.PIPE, text=True)
        for name in ("a", "b", "c")
    ]
    assert [writer.communicate()[0] for writer in writers] == ["", "", ""]
    cache = VectorCache(path)
    assert cache.count == 3 * 400 + 40
    assert np.array_equal(cache.get("f", ["b 39 7"])["b 39 7"], np.full(16, 7, np.float32))
    cache.close()
