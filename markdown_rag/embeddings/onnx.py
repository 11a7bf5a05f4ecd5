"""Other local models, through ``fastembed`` (an extra): a folder with an ONNX model, or the name of one it knows.

Nothing is fetched unless EMBEDDING_ALLOW_DOWNLOAD says so; what was fetched once is found again. A folder holds
``model.onnx`` (or ``onnx/model.onnx``), ``tokenizer.json`` and ``tokenizer_config.json`` as its makers publish them;
pooling and prompts are read from the files of sentence-transformers where they lie beside it. The model's name is the
folder's with a hash of the weights, so that a folder may move, and other weights under its name never mix.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from markdown_rag.embeddings.answers import as_matrix
from markdown_rag.embeddings.base import Limits, Matrix, ModelCard, Role
from markdown_rag.errors import EmbeddingRefused

T = TypeVar("T")

EXTRA = "markdown-fastrag-mcp[fastembed]"
_BATCH = 8  # more at once is no faster on a processor, and costs memory: 161 MB for one text, 625 MB for 16
_MODEL_FILES = ("model.onnx", "onnx/model.onnx")
_NEEDED = ("tokenizer.json", "tokenizer_config.json")
_SAMPLE = 1 << 20  # bytes of each end of the weights that tell them from others
_POOLINGS = {"pooling_mode_cls_token": "CLS", "pooling_mode_lasttoken": "LAST_TOKEN"}  # else the mean
_PROMPTS = {Role.QUERY: ("query",), Role.DOCUMENT: ("document", "passage")}
_REGISTERING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Folder:
    """What the files of a model folder say. name: for the index. text_tokens: the longest text it reads."""

    path: Path
    file: str
    name: str
    dimension: int
    text_tokens: int
    pooling: str
    prompts: dict[Role, str] = field(default_factory=dict)


def read_folder(path: Path) -> Folder:
    """The model in a folder; EmbeddingRefused naming what is missing or cannot be read."""
    file = next((name for name in _MODEL_FILES if (path / name).is_file()), None)
    missing = [name for name in _NEEDED if not (path / name).is_file()] + ([] if file else [_MODEL_FILES[0]])
    if missing or file is None:
        raise EmbeddingRefused(
            f"EMBEDDING_MODEL={path} is no model folder: {', '.join(missing)} is missing.",
            "Put an ONNX model and its tokenizer files there, or unset EMBEDDING_MODEL.",
        )
    try:
        prompts = _json(path / "config_sentence_transformers.json").get("prompts") or {}
        pooling = _json(path / "1_Pooling" / "config.json")
        return Folder(
            path=path,
            file=file,
            name=f"{path.name}@{_fingerprint(path / file)}",
            dimension=int(_json(path / "config.json").get("hidden_size") or 0),
            text_tokens=_longest(_json(path / "tokenizer_config.json")),
            pooling=next((kind for flag, kind in _POOLINGS.items() if pooling.get(flag)), "MEAN"),
            prompts={
                role: next((str(prompts[n]) for n in names if n in prompts), "") for role, names in _PROMPTS.items()
            },
        )
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise EmbeddingRefused(
            f"The model folder {path} cannot be read: {error}.", "Copy the model's files again."
        ) from error


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise TypeError(f"{path.name} holds no JSON object")
    return found


def _longest(tokenizer: dict[str, Any]) -> int:
    """The stricter of the two keys; transformers writes 1e30 where it knows none."""
    known = [tokenizer.get("model_max_length"), tokenizer.get("max_length")]
    return min((n for n in known if isinstance(n, int) and 0 < n < 1_000_000), default=512)


def _fingerprint(weights: Path) -> str:
    size = weights.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with weights.open("rb") as file:
        digest.update(file.read(_SAMPLE))
        file.seek(max(0, size - _SAMPLE))
        digest.update(file.read(_SAMPLE))
    return digest.hexdigest()[:12]


class OnnxEmbedder:
    """One model of fastembed, loaded on first use.

    model: a folder's path or a name. dimension 0: the model's own. threads: of one batch. kept: where fetched models
    lie. download: whether a model that is not there may be fetched.
    """

    def __init__(self, model: str, dimension: int, threads: int, kept: Path, *, download: bool) -> None:
        self._given = model
        self._threads = threads
        self._kept = kept
        self._download = download
        path = Path(os.path.expanduser(model))
        self._folder = read_folder(path) if path.is_dir() or is_path(model) else None
        name, own = (self._folder.name, self._folder.dimension) if self._folder else (model, 0)
        self._card = ModelCard("local", name, dimension or own)
        self._loaded: Any = None
        self._lock = threading.Lock()

    @property
    def card(self) -> ModelCard:
        """Which model."""
        return self._card

    @property
    def limits(self) -> Limits:
        """What the model reads. A model known by name is loaded to tell: raises as embed does."""
        tokens = self._folder.text_tokens if self._folder else _reads(self._model())
        return Limits(_BATCH, 0, tokens, 1)

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:
        """One batch. EmbeddingRefused where fastembed or the model is missing or cannot be used."""
        model = self._model()
        return self._guarded(lambda: as_matrix([np.asarray(row, np.float32) for row in self._rows(model, texts, role)]))

    def _rows(self, model: Any, texts: Sequence[str], role: Role) -> Iterable[Any]:
        if self._folder:
            prompt = self._folder.prompts[role]
            yield from model.embed([prompt + text for text in texts], batch_size=_BATCH)
        else:
            embed = model.query_embed if role is Role.QUERY else model.passage_embed
            yield from embed(list(texts), batch_size=_BATCH)

    def _model(self) -> Any:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> Any:
        library = _library()
        options: dict[str, Any] = {"local_files_only": not self._download, "cache_dir": str(self._kept)}
        if self._folder:
            self._guarded(partial(_register, library, self._folder))
            options |= {"specific_model_path": str(self._folder.path), "local_files_only": True}
        name = self._folder.name if self._folder else self._given
        return self._guarded(
            lambda: library.TextEmbedding(name, threads=self._threads, providers=["CPUExecutionProvider"], **options)
        )

    def _guarded(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except Exception as error:  # onnxruntime's errors have no other base, and the tokenizer raises Exception itself
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> EmbeddingRefused:
        said = " ".join(str(error).split())[:200]
        if self._folder or "not supported" in said:
            return EmbeddingRefused(
                f"EMBEDDING_MODEL={self._given} cannot be used: {said}",
                "Name a folder with an ONNX model or a model that fastembed knows.",
            )
        return EmbeddingRefused(
            f"The model {self._given} is not on this machine ({self._kept}).",
            "Set EMBEDDING_ALLOW_DOWNLOAD=on to fetch it once, or name a folder that holds it in EMBEDDING_MODEL.",
        )

    def close(self) -> None:
        """Let go of the model's memory; a later request loads it again."""
        with self._lock:
            self._loaded = None


def is_path(model: str) -> bool:
    """Whether a model is named by its place: names of models have one slash at most and start with none."""
    return model.startswith(("/", "./", "../", "~")) or model.count("/") > 1


def not_installed(who: str, instead: str) -> EmbeddingRefused:
    """The error of a setting that needs the optional package where that is missing."""
    return EmbeddingRefused(
        f"{who} needs the fastembed package, which is not installed.", f"Install {EXTRA}, or {instead}."
    )


def quieten() -> None:
    """Keep the optional package from logging what it then raises, to the terminal."""
    from loguru import logger  # noqa: PLC0415  comes with it

    logger.disable("fastembed")


def _library() -> Any:
    try:
        import fastembed  # noqa: PLC0415  1 s, only when chosen
    except ImportError as error:
        instead = "unset EMBEDDING_MODEL for the model inside this package"
        raise not_installed("EMBEDDING_MODEL names a model that", instead) from error
    quieten()
    return fastembed


def _register(library: Any, folder: Folder) -> None:
    """Tell the library of a model that it does not know; once a process."""
    from fastembed.common.model_description import ModelSource, PoolingType  # noqa: PLC0415

    with _REGISTERING:
        if any(
            known["model"].lower() == folder.name.lower() for known in library.TextEmbedding.list_supported_models()
        ):
            return
        library.TextEmbedding.add_custom_model(
            model=folder.name,
            pooling=PoolingType[folder.pooling],
            normalization=True,
            sources=ModelSource(hf=folder.name),  # never asked: the files are given
            dim=folder.dimension,
            model_file=folder.file,
        )


def _reads(model: Any) -> int:
    """Tokens of the longest text that a loaded model reads."""
    truncation = getattr(getattr(model.model, "tokenizer", None), "truncation", None) or {}
    return int(truncation.get("max_length", 512))
