"""A provider's answer, judged: rows in, unit vectors out, or the reason why not.

Whatever leaves here is float32, finite, of the right number and dimension, and of length one, so that an inner
product is a cosine for every provider (some shortened vectors are not unit length as sent).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from markdown_rag.amounts import amount
from markdown_rag.embeddings.base import Matrix, Vector
from markdown_rag.errors import EmbeddingMismatch

ASK_AGAIN = "Run it again; if it stays, check EMBEDDING_BASE_URL and EMBEDDING_MODEL."
_CHANGED = "The model has changed: run `markdown-fastrag-mcp service stop` or restart the agent, then index again"
NOT_FINITE = "the provider's vector for this text holds values that are not numbers"


@dataclass(frozen=True, slots=True)
class Answer:
    """vectors: unit rows, shape (n, dimension). usable: which rows hold a vector; the others are zero."""

    vectors: Matrix
    usable: tuple[bool, ...]


def check(rows: Matrix, count: int, dimension: int, *, chosen: bool = True) -> Answer:
    """Judge the answer to a request of count texts; dimension 0 takes whatever the provider has.

    chosen: the dimension is EMBEDDING_DIM's, or that of a model known by name, and not what the provider had before.
    Raises EmbeddingMismatch for the wrong number or length of rows. A row that is not finite or has no length makes
    only that row unusable.
    """
    if rows.ndim != 2 or len(rows) != count:
        got = len(rows) if rows.ndim == 2 else 0
        raise EmbeddingMismatch(
            f"The provider answered {amount(got, 'vector')} for {amount(count, 'text')}.", ASK_AGAIN
        )
    if dimension and rows.shape[1] != dimension:
        way_out = f"Set EMBEDDING_DIM to {rows.shape[1]}" if chosen else _CHANGED
        raise EmbeddingMismatch(
            f"The provider's vectors have {rows.shape[1]} dimensions, not the {dimension} that are expected.",
            f"{way_out}; a new index is built and the old one stays.",
        )
    if rows.shape[1] == 0:
        raise EmbeddingMismatch("The provider answered empty vectors.", ASK_AGAIN)
    # float64, so that the length of a vector of tiny or huge values neither vanishes nor overflows.
    wide = rows.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    usable = np.isfinite(lengths) & (lengths > 0)
    unit = np.zeros(rows.shape, dtype=np.float32)
    np.divide(wide, lengths[:, None], out=unit, where=usable[:, None], casting="unsafe")
    return Answer(unit, tuple(usable.tolist()))


def as_matrix(rows: list[list[float]] | list[Vector]) -> Matrix:
    """Rows as one float32 matrix; EmbeddingMismatch where they differ in length or hold something else."""
    try:
        return np.asarray(rows, dtype=np.float32).reshape(len(rows), -1) if rows else np.empty((0, 0), np.float32)
    except (TypeError, ValueError) as error:
        raise EmbeddingMismatch("The provider's vectors are not rows of numbers of one length.", ASK_AGAIN) from error


def combine(parts: Sequence[tuple[Vector, int]]) -> Vector:
    """One unit vector for a text that was embedded in parts: the mean of (vector, weight)."""
    vectors = np.stack([vector for vector, _ in parts]).astype(np.float64)
    total = np.average(vectors, axis=0, weights=[weight for _, weight in parts])
    length = float(np.linalg.norm(total))
    unit: Vector = (total / length if length else vectors[0]).astype(np.float32)
    return unit
