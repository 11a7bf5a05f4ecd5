"""Other local models: real ONNX files through the real library, and never a network."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_onnx import DIMENSION, write_model

from markdown_rag.clock import StopSignal, SystemClock
from markdown_rag.embeddings.base import Embedder, Role
from markdown_rag.embeddings.batching import Batcher, BatchPolicy
from markdown_rag.embeddings.registry import EmbeddingSettings, create_embedder
from markdown_rag.errors import EmbeddingRefused


def opened(model: Path | str, kept: Path, **more: object) -> Embedder:
    return create_embedder(EmbeddingSettings(provider="local", model=str(model), kept=kept, **more))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


def test_a_folder_with_a_model_embeds(folder: Path, tmp_path: Path) -> None:
    embedder = opened(folder, tmp_path)
    rows = embedder.embed(["bread oven", "the wall", "bread dough"], Role.DOCUMENT)
    assert rows.shape == (3, DIMENSION)
    assert rows.dtype == np.float32
    assert rows[0] @ rows[2] > rows[0] @ rows[1]
    assert (embedder.card.provider, embedder.card.dimension) == ("local", DIMENSION)
    embedder.close()
    assert np.array_equal(embedder.embed(["bread oven"], Role.DOCUMENT)[0], rows[0])


def test_a_folder_that_moves_is_the_same_model_and_other_weights_are_another(folder: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(folder, tmp_path / "elsewhere" / "tiny")
    other = write_model(tmp_path / "tiny", seed=1)
    names = [opened(path, tmp_path).card.model for path in (folder, moved, other)]
    assert names[0] == names[1] != names[2]
    assert names[0].startswith("tiny@")


@pytest.mark.parametrize("pooling", ["pooling_mode_mean_tokens", "pooling_mode_cls_token", "pooling_mode_lasttoken"])
def test_the_pooling_is_the_one_that_the_model_was_trained_with(pooling: str, tmp_path: Path) -> None:
    embedder = opened(write_model(tmp_path / pooling, seed=3, pooling=pooling), tmp_path)
    both, first, last = embedder.embed(["bread wall", "bread", "wall"], Role.DOCUMENT)
    expected = {"cls": first, "las": last}.get(pooling.removeprefix("pooling_mode_")[:3])
    if expected is None:
        assert not np.allclose(both, first)
        assert not np.allclose(both, last)
    else:
        assert np.allclose(both, expected, atol=1e-6)


def test_questions_and_documents_get_the_models_own_prompts(tmp_path: Path) -> None:
    embedder = opened(write_model(tmp_path / "prompted", seed=4, prompts={"query": "query: "}), tmp_path)
    question, plain, spelled = (
        embedder.embed([text], role)[0]
        for text, role in (("bread", Role.QUERY), ("bread", Role.DOCUMENT), ("query: bread", Role.DOCUMENT))
    )
    assert np.allclose(question, spelled)
    assert not np.allclose(question, plain)


def test_a_text_longer_than_the_model_reads_is_embedded_to_its_end(folder: Path, tmp_path: Path) -> None:
    batcher = Batcher(opened(folder, tmp_path), BatchPolicy(), SystemClock())
    start = "bread " * 80
    outcome = batcher.embed([start, start + "wall " * 80], Role.DOCUMENT, StopSignal())
    short, whole = outcome.vectors
    assert short is not None
    assert whole is not None
    assert not np.allclose(short, whole, atol=0.05)


def test_a_model_that_is_not_there_is_said_at_once_and_nothing_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        pytest.fail("it reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(EmbeddingRefused, match="EMBEDDING_ALLOW_DOWNLOAD") as caught:
        opened("BAAI/bge-small-en-v1.5", tmp_path).embed(["text"], Role.DOCUMENT)
    assert caught.value.__cause__


def test_a_name_that_the_library_does_not_know_is_said(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingRefused, match="nobody/knows"):
        opened("nobody/knows", tmp_path).embed(["text"], Role.DOCUMENT)


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json", "tokenizer_config.json"])
def test_a_folder_without_one_of_the_files_is_refused_naming_it(folder: Path, tmp_path: Path, missing: str) -> None:
    broken = shutil.copytree(folder, tmp_path / "broken")
    (broken / missing).unlink()
    with pytest.raises(EmbeddingRefused, match=missing):
        opened(broken, tmp_path)
    with pytest.raises(EmbeddingRefused, match=r"model\.onnx"):
        opened(tmp_path / "no" / "folder" / "there", tmp_path)


@pytest.mark.parametrize("damaged", ["model.onnx", "tokenizer.json", "tokenizer_config.json", "config.json"])
def test_damaged_files_are_a_clear_error(folder: Path, tmp_path: Path, damaged: str) -> None:
    broken = shutil.copytree(folder, tmp_path / "damaged")
    (broken / damaged).write_text("{]")
    with pytest.raises(EmbeddingRefused, match="damaged"):
        opened(broken, tmp_path).embed(["text"], Role.DOCUMENT)


@pytest.mark.parametrize(
    "content",
    ["[1]", "[[1, 2]]", "null", "[" * 100_000, '{"hidden_size": [1]}', '{"hidden_size": 1e999}'],
    ids=["list", "pairs", "null", "deep", "list of sizes", "endless"],
)
def test_a_configuration_that_is_other_json_is_a_clear_error(folder: Path, tmp_path: Path, content: str) -> None:
    broken = shutil.copytree(folder, tmp_path / "damaged")
    (broken / "config.json").write_text(content)
    with pytest.raises(EmbeddingRefused, match="damaged cannot be read"):
        opened(broken, tmp_path)
    shutil.copy(folder / "config.json", broken)
    (broken / "config_sentence_transformers.json").write_text('{"prompts": ["query"]}')
    with pytest.raises(EmbeddingRefused, match="damaged cannot be read"):
        opened(broken, tmp_path)


def test_without_the_package_the_error_names_what_to_install(folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['fastembed'] = None\n"  # what an import of a missing package meets
        "from pathlib import Path\n"
        "from markdown_rag.embeddings.base import Role\n"
        "from markdown_rag.embeddings.onnx import OnnxEmbedder\n"
        "from markdown_rag.errors import EmbeddingRefused\n"
        "try:\n"
        f"    OnnxEmbedder({str(folder)!r}, 0, 1, Path({str(tmp_path)!r}), download=False).embed(['x'], Role.QUERY)\n"
        "except EmbeddingRefused as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "markdown-fastrag-mcp[fastembed]" in done.stdout
