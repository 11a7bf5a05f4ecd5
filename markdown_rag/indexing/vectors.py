"""The vector that is stored for a chunk: part of the chunk's own, part of its document's (facts: docs/decisions). Pure.

D = normalise(sum of the file's chunk vectors); stored = (1 - w) c + w D, not normalised, so that the inner product with
a query is (1 - w) cos(query, chunk) + w cos(query, document).
"""

from __future__ import annotations

import numpy as np

from markdown_rag.embeddings.base import Matrix


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
