"""Numbers with their nouns, as people and models read them. Pure."""

from __future__ import annotations


def amount(number: int, one: str, several: str = "") -> str:
    """A number and its noun: "1 file", "1,200 files". several: the plural, where it is not one with an s."""
    return f"{number:,} {noun(number, one, several)}"


def noun(number: int, one: str, several: str = "") -> str:
    """The noun alone, where its number stands elsewhere."""
    return one if number == 1 else several or f"{one}s"
