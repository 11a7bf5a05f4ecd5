"""A model folder small enough for tests: a real ONNX graph (a table of word vectors) with a real tokenizer.

ONNX files are protocol buffers; the few messages that one lookup needs are written here by hand.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

WORDS = ("[PAD]", "[UNK]", "bread", "dough", "oven", "fire", "wall", "port", "query:", "the")
DIMENSION = 8
FLOAT, INT64 = 1, 7


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _tensor_info(name: str, kind: int, dims: tuple[str | int, ...]) -> bytes:
    shape = b"".join(_bytes(1, _bytes(2, dim) if isinstance(dim, str) else _number(1, dim)) for dim in dims)
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, shape)))


def onnx_table(table: np.ndarray) -> bytes:
    """An ONNX model: input_ids (batch, sequence) in, their rows of the table out."""
    weights = b"".join(_number(1, dim) for dim in table.shape) + _number(2, FLOAT)
    weights += _bytes(8, "table") + _bytes(9, table.astype("<f4").tobytes())
    node = _bytes(1, "table") + _bytes(1, "input_ids") + _bytes(2, "last_hidden_state") + _bytes(4, "Gather")
    graph = _bytes(1, node) + _bytes(2, "tiny") + _bytes(5, weights)
    graph += _bytes(11, _tensor_info("input_ids", INT64, ("batch", "sequence")))
    graph += _bytes(12, _tensor_info("last_hidden_state", FLOAT, ("batch", "sequence", table.shape[1])))
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _number(2, 13))


def write_model(folder: Path, *, seed: int = 0, pooling: str = "", prompts: dict[str, str] | None = None) -> Path:
    """A model folder; another seed is another model."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder.mkdir(parents=True)
    table = np.random.default_rng(seed).normal(size=(len(WORDS), DIMENSION))
    (folder / "model.onnx").write_bytes(onnx_table(table))
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    files = {
        "config.json": {"hidden_size": DIMENSION, "pad_token_id": 0},
        "tokenizer_config.json": {"model_max_length": 64, "pad_token": "[PAD]"},
        "special_tokens_map.json": {"pad_token": "[PAD]", "unk_token": "[UNK]"},
        "config_sentence_transformers.json": {"prompts": prompts or {}},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    if pooling:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({pooling: True}))
    return folder
