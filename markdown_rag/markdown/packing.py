"""Atoms become pieces: runs of neighbours of about equal size, small ones merged, none over the limits."""

from __future__ import annotations

from dataclasses import dataclass

from markdown_rag.markdown.cutting import Atom, Cutter, part_size
from markdown_rag.markdown.tokens import count


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighbouring atoms of one section, or of several that were merged; path is the heading path they share.

    tokens: of the text itself, without prefix, overlap and closing line.
    """

    atoms: tuple[Atom, ...]
    path: tuple[str, ...]
    tokens: int

    @classmethod
    def of(cls, atoms: tuple[Atom, ...], path: tuple[str, ...]) -> Piece:
        """A piece of these atoms."""
        return cls(atoms, path, sum(atom.tokens for atom in atoms))

    @property
    def start(self) -> int:
        """Where its text begins; before its first atom where an overlap is repeated."""
        return self.atoms[0].first

    @property
    def end(self) -> int:
        """Where its text ends."""
        return self.atoms[-1].end

    @property
    def cost(self) -> int:
        """Tokens of the text with prefix, overlap and closing line."""
        return self.atoms[0].opening + self.tokens + _closing_cost(self.atoms[-1])

    def follows(self, other: Piece) -> bool:
        """Whether it begins where the other ends."""
        return other.end == self.atoms[0].start

    def joined(self, other: Piece, path: tuple[str, ...]) -> Piece:
        """This piece and the one that follows it, under the path they share."""
        return Piece(self.atoms + other.atoms, path, self.tokens + other.tokens)

    def halves(self) -> tuple[Piece, Piece]:
        """Two pieces of its atoms; it has at least two."""
        middle = len(self.atoms) // 2
        return Piece.of(self.atoms[:middle], self.path), Piece.of(self.atoms[middle:], self.path)


def _closing_cost(atom: Atom) -> int:
    return count("\n" + atom.closing) if atom.closing else 0


def pack(atoms: list[Atom], room: int, cutter: Cutter) -> list[tuple[Atom, ...]]:
    """Runs of atoms of about equal size, near `part_size` of the room, each within the room and the byte limit."""
    aim = part_size(room)
    left = sum(atom.tokens for atom in atoms)
    target = left / max(1, -(-left // aim))
    runs: list[tuple[Atom, ...]] = []
    current: list[Atom] = []
    filled = 0
    for atom in atoms:
        if current:
            grown = filled + atom.tokens
            over = current[0].opening + grown + _closing_cost(atom) > room
            enough = grown - atom.tokens / 2 > target
            if over or enough or not cutter.bytes_fit(current[0].first, atom.end):
                runs.append(tuple(current))
                left -= filled
                target = left / max(1, -(-left // aim))
                current, filled = [], 0
        filled += atom.tokens
        current.append(atom)
    return [*runs, tuple(current)] if current else runs
