"""Which files hold documents, told by their names alone. Pure."""

from __future__ import annotations

EXTENSIONS = (".md", ".markdown", ".mdx")
EDGE_LIST = "_graph.yaml"
_LONGEST = max(map(len, EXTENSIONS))


def is_edge_list(path: str) -> bool:
    """Whether a path names an edge list."""
    return path.rpartition("/")[2] == EDGE_LIST


def is_document(name: str) -> bool:
    """Whether a file is one to index: one of the extensions, in any case, or an edge list."""
    return name[-_LONGEST:].lower().endswith(EXTENSIONS) or is_edge_list(name)
