"""The index as a dictionary: what must be stored after a run, computed the plainest way. Tests compare with it.

No walk in batches, no stat, no cache, no generations: every file of the scope is read, chunked, and put in or out.
"""

from __future__ import annotations

import os
from pathlib import Path

from markdown_rag.markdown.chunking import ChunkPolicy, Document
from markdown_rag.markdown.documents import to_document
from markdown_rag.store.base import Store, Where

LEFT_OUT = {"node_modules", "__pycache__", "devlog", "_legacy", "dist", "build"}
INSTRUCTIONS = {"AGENTS.md", "CLAUDE.md", "GEMINI.md"}
Rows = list[tuple[int, int, str, str]]  # start_byte, end_byte, text, text_hash


class ReferenceIndex:
    """Path to rows, for one workspace."""

    def __init__(self, root: Path, policy: ChunkPolicy) -> None:
        self.root = root
        self.policy = policy
        self.left_out: frozenset[str] = frozenset()  # folders left out besides the usual ones
        self.index: dict[str, Rows] = {}

    def run(self, scope: str = "") -> None:
        """Bring the dictionary up to date for a folder or file."""
        there = {path for path in self._files() if _within(path, scope)}
        for path in [path for path in self.index if _within(path, scope) and path not in there]:
            del self.index[path]
        for path in there:
            document = to_document((self.root / path).read_bytes(), path, self.policy)
            if isinstance(document, Document) and document.chunks:
                self.index[path] = [(c.start_byte, c.end_byte, c.text, c.text_hash) for c in document.chunks]
            else:
                self.index.pop(path, None)

    def _files(self) -> list[str]:
        found = []
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if name not in LEFT_OUT | self.left_out and not name.startswith(".")]
            for name in files:
                path = Path(folder, name)
                if (
                    path.suffix.lower() in {".md", ".markdown", ".mdx"}
                    and name not in INSTRUCTIONS
                    and not path.is_symlink()
                ):
                    found.append(path.relative_to(self.root).as_posix())
        return found


def _within(path: str, scope: str) -> bool:
    return not scope or path == scope or path.startswith(scope + "/")


def stored(store: Store, workspace: str) -> dict[str, Rows]:
    """The same picture from a store, which must hold exactly one whole generation a file, and no row besides."""
    where = Where(workspaces=(workspace,))
    catalog = {entry.path: entry for entry in store.catalog(where)}
    assert len(catalog) == len(store.catalog(where)), "a file has two generations"
    index: dict[str, Rows] = {path: [] for path in catalog}
    for row in sorted(store.rows(where), key=lambda row: row.ord):
        assert row.gen == catalog[row.path].gen, f"{row.path}: a row of another generation"
        assert row.ord == len(index[row.path]), f"{row.path}: a gap before row {row.ord}"
        index[row.path].append((row.start_byte, row.end_byte, row.text, row.text_hash))
    assert all(len(rows) == catalog[path].chunk_count for path, rows in index.items()), "rows are missing"
    return index
