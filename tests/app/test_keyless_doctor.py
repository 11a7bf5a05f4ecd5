"""The doctor where the model cannot be asked: it compares what can be compared, and says what it left out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from markdown_rag import asking
from markdown_rag.app import App
from markdown_rag.facade import IndexCall
from markdown_rag.settings import Settings, load_settings
from markdown_rag.store.base import Model
from markdown_rag.store.opening import open_store
from markdown_rag.wiring import Parts
from tests.indexing.parts import DIMENSION, HashingEmbedder, embeddings_over

from .conftest import indexed, write

Doctor = Callable[..., tuple[int, str]]


# A model whose vectors' length only the provider tells, and one where the settings do.
MODELS = {
    "asked": {"EMBEDDING_MODEL": "embedding-of-tomorrow"},
    "told": {"EMBEDDING_MODEL": "text-embedding-3-small", "EMBEDDING_DIM": str(DIMENSION)},
}


@pytest.fixture(params=MODELS)
def keyless(state_dir: Path, request: pytest.FixtureRequest) -> Settings:
    known = {"MARKDOWN_RAG_CACHE_DIR": str(state_dir), "EMBEDDING_PROVIDER": "openai"}
    return load_settings(known | MODELS[request.param])


@pytest.fixture
def doctor(keyless: Settings, vault: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Doctor]:
    """The shell's doctor over the vault, with no key: exit code and standard output."""
    with closing(Parts(keyless)) as parts:

        def run(*, repair: bool = False, as_json: bool = False) -> tuple[int, str]:
            options = argparse.Namespace(path=str(vault), repair=repair, json=as_json)
            return asking.doctor(App(parts, keyless, vault), options), capsys.readouterr().out

        yield run


def index_with_a_key(settings: Settings, vault: Path) -> None:
    with closing(Parts(settings)) as parts:
        model = Model("openai", settings.embedding_model, DIMENSION, document_weight=0.0)
        parts.once("store", lambda: open_store(parts.store_settings, model))
        parts.once("embeddings", lambda: embeddings_over(HashingEmbedder(), settings.state_directory, parts.clock))
        app = App(parts, settings, vault)
        indexed(app)
        assert app.audit(IndexCall(root=str(vault)))["ok"]


def test_without_a_key_the_index_is_compared_with_the_disk_all_the_same(
    doctor: Doctor, keyless: Settings, vault: Path
) -> None:
    write(vault, "a", "b")
    index_with_a_key(keyless, vault)
    code, out = doctor()
    assert code == asking.FAILED
    assert "BAD  embeddings: " in out
    assert out.splitlines()[-1] == f"The index and the disk agree for {vault}."
    write(vault, "a", words="something else")
    write(vault, "c")
    told = doctor()[1]
    assert "BAD  stale: a.md" in told
    assert "BAD  missing: c.md" in told
    assert "2 differences" in told


def test_without_a_key_nothing_is_repaired_and_the_doctor_says_so(
    doctor: Doctor, keyless: Settings, vault: Path
) -> None:
    write(vault, "a")
    index_with_a_key(keyless, vault)
    write(vault, "b")
    assert "1 difference between" in doctor(repair=True)[1]
    assert "Nothing was repaired: that takes embeddings, which are BAD above." in doctor(repair=True)[1]


@pytest.mark.parametrize("keyless", ["asked"], indirect=True)
def test_where_nothing_can_be_compared_the_doctor_says_so_and_why(doctor: Doctor, vault: Path) -> None:
    write(vault, "a")
    code, out = doctor()
    assert code == asking.FAILED
    assert out.splitlines()[-1].startswith("The index was not compared with the disk: ")
    assert "OPENAI_API_KEY" in out.splitlines()[-1]
    assert json.loads(doctor(as_json=True)[1])["audit"]["message"] == out.splitlines()[-1]


def test_where_the_store_is_away_the_doctor_names_it_as_what_is_in_the_way(
    state_dir: Path, vault: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = load_settings({"MARKDOWN_RAG_CACHE_DIR": str(state_dir), "MILVUS_ADDRESS": str(vault / "a.md" / "x.db")})
    write(vault, "a")
    with closing(Parts(settings)) as parts:
        options = argparse.Namespace(path=str(vault), repair=False, json=False)
        assert asking.doctor(App(parts, settings, vault), options) == asking.FAILED
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("The index was not compared with the disk: first put right what is BAD above (store: ")
