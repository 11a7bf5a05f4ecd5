"""Pieces to texts: vectors of pieces arrive in any order and become one vector a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markdown_rag.embeddings.answers import combine
from markdown_rag.embeddings.base import Limits, Vector
from markdown_rag.embeddings.packing import cut, is_blank, pack

BLANK = "the text is blank"


class Assembly:
    """The texts of one run. vectors[i] is None until texts[i] is complete; refused[i] says why it never will be.

    pieces: what is to be sent, valid Unicode and never blank, as far as ``batches`` was asked; sizes: their estimated
    tokens.
    """

    def __init__(self, texts: Sequence[str], limits: Limits) -> None:
        self.pieces: list[str] = []
        self.sizes: list[int] = []
        self.vectors: list[Vector | None] = [None] * len(texts)
        self.refused: dict[int, str] = {i: BLANK for i, text in enumerate(texts) if is_blank(text)}
        self._texts = texts
        self._limits = limits
        self._owners: list[int] = []
        self._left: dict[int, int] = {}
        self._parts: dict[int, list[tuple[Vector, int]]] = {}

    def batches(self, items: int) -> Iterator[list[int]]:
        """The pieces that travel together, of at most so many texts, each batch made when it is asked for."""
        return pack(self._sizes(), self._limits, items)

    def _sizes(self) -> Iterator[int]:
        for owner, text in enumerate(self._texts):
            # A lone surrogate is no Unicode and cannot be sent by anybody.
            sent = text if text.isascii() else text.encode("utf-8", "replace").decode()
            parts = cut(sent, self._limits)
            self._left[owner] = len(parts)
            for part, size in parts:
                self.pieces.append(part)
                self.sizes.append(size)
                self._owners.append(owner)
                yield size

    def add(self, pieces: Sequence[int], vectors: Sequence[Vector]) -> list[int]:
        """Take the pieces' vectors; the indices of the texts that are complete now."""
        complete: list[int] = []
        for piece, vector in zip(pieces, vectors, strict=True):
            owner = self._owners[piece]
            if owner in self.refused:
                continue
            if self._left[owner] == 1:
                self.vectors[owner] = vector
                complete.append(owner)
                continue
            parts = self._parts.setdefault(owner, [])
            parts.append((vector, self.sizes[piece]))
            if len(parts) == self._left[owner]:
                self.vectors[owner] = combine(self._parts.pop(owner))
                complete.append(owner)
        return complete

    def refuse(self, piece: int, reason: str) -> int:
        """The piece's text gets no vector; 1 if that was not known yet, else 0."""
        owner = self._owners[piece]
        if owner in self.refused:
            return 0
        self.refused[owner] = reason
        self._parts.pop(owner, None)
        return 1
