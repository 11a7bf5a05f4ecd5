"""Vaults with an index, as in the tests of indexing: the doctor judges each when its test ends."""

from __future__ import annotations

from tests.indexing.conftest import new_bench

__all__ = ["new_bench"]
