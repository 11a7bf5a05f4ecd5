"""The vector that is stored for a chunk: part of the chunk's own, part of its document's (docs/decisions/0005). Pure.

D = normalise(sum of the file's chunk vectors); stored = (1 - w) c + w D, not normalised, so that the inner product with
a query is (1 - w) cos(query, chunk) + w cos(query, document).
"""

from __future__ import annotations

import numpy as np

from markdown_rag.embeddings.base import Matrix

_LENGTH_TOLERANCE = 1e-3  # rounding makes 1e-6; a missing row far more


def with_document(chunks: Matrix, weight: float) -> Matrix:
    """Stored vectors of one file. chunks: its chunk vectors, shape (n, dimension); weight: 0 to 1."""
    own = _unit_rows(chunks)
    if not weight:
        return own
    document = _unit_rows(own.sum(axis=0, keepdims=True))
    return np.asarray((1.0 - weight) * own + weight * document, dtype=np.float32)


def _unit_rows(matrix: Matrix) -> Matrix:
    """Rows of length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    lengths[lengths == 0.0] = 1.0
    return np.asarray(matrix / lengths, dtype=np.float32)


def own_vectors(stored: Matrix, weight: float) -> Matrix | None:
    """What ``with_document`` was given: the chunk vectors of one file, from all its stored ones in any order.

    D is also normalise(sum of the stored vectors), so c = (v - w D) / (1 - w); exact to about 1e-7. None where the
    result is not of length 1: the rows are not those of one whole file, or nothing of a chunk's own is in them.
    """
    if weight >= 1.0:
        return None
    document = _unit_rows(stored.sum(axis=0, keepdims=True))
    own = np.asarray((stored - weight * document) / (1.0 - weight), dtype=np.float32)
    lengths = np.linalg.norm(own, axis=1)
    return own if np.all(np.abs(lengths - 1.0) < _LENGTH_TOLERANCE) else None
