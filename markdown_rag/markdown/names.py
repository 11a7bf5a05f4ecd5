"""Which files hold documents: by their names, and by their size. Pure."""

from __future__ import annotations

EXTENSIONS = (".md", ".markdown", ".mdx")
EDGE_LIST = "_graph.yaml"
MAX_FILE_BYTES = 20_000_000  # bounds the memory and the seconds that one file can cost
_LONGEST = max(map(len, EXTENSIONS))


def is_edge_list(path: str) -> bool:
    """Whether a path names an edge list."""
    return path.rpartition("/")[2] == EDGE_LIST


def is_document(name: str) -> bool:
    """Whether a file is one to index: one of the extensions, in any case, or an edge list."""
    return name[-_LONGEST:].lower().endswith(EXTENSIONS) or is_edge_list(name)
