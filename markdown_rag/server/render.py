"""Answers as text for a reader: the same facts as the structure, none left out. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from markdown_rag.errors import FastRagError

NOTHING = "No meaningful results found."


def failure(error: FastRagError, fields: Container[str]) -> dict[str, Any]:
    """The structured form of an error: those of the tool's fields that an error can fill."""
    structured: dict[str, Any] = {
        "accepted": False,
        "status": "rejected",
        "message": str(error),
        "job_id": None,
        "error": str(error),
        "code": error.code,
        "found": False,
        "active_jobs": 0,
        "cancelled": False,
        "cleared": False,
        "hits": [],
    }
    return {name: value for name, value in structured.items() if name in fields}


def search_text(structured: Mapping[str, Any]) -> str:
    """A search answer in the form clients of the old tool know, with headings and lines added."""
    hits = structured.get("hits", [])
    note = structured.get("note", "")
    if not hits:
        return f"{NOTHING} {note}".strip()
    blocks = [_hit(hit) for hit in hits]
    return "\n---\n".join(blocks) + (f"\n---\n{note}" if note else "")


def _hit(hit: Mapping[str, Any]) -> str:
    name = hit["path"].rsplit("/", 1)[-1]
    freshness = hit.get("freshness", "fresh")
    lines = [
        f"File: **{name}** (relevance: {100 * hit['score']:.1f}%)",
        f"Path: `{hit['path']}`",
        f"Lines: {hit['lines']}" + ("" if freshness == "fresh" else f" ({freshness})"),
    ]
    if heading := hit.get("heading"):
        lines.append(f"Heading: {heading}")
    elif title := hit.get("title"):
        lines.append(f"Title: {title}")
    for label, key in (("Tags", "tags"), ("Aliases", "aliases")):
        if values := hit.get(key):
            lines.append(f"{label}: {', '.join(values)}")
    if parts := hit.get("parts"):
        lines.append("Parts: " + ", ".join(f"{name} {value:.3f}" for name, value in parts.items()))
    return "\n".join([*lines, "---", f"Text: {hit['text']}", "---"])
