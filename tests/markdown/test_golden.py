"""Golden files: notes and the chunks they become, as readable text.

After a change that is meant: `python tests/markdown/test_golden.py` writes them again; read the difference.
"""

from pathlib import Path

import pytest

from markdown_rag.markdown.chunking import HEADING_JOIN, ChunkPolicy, Document, chunk_document

NOTES = Path(__file__).parent.parent / "data" / "markdown"
POLICY = ChunkPolicy(max_tokens=80, min_tokens=20, min_final=10)


def rendered(path: Path) -> str:
    document = chunk_document(path.read_bytes(), f"notes/{path.name}", POLICY)
    assert isinstance(document, Document)
    lines = [
        f"title: {document.title} ({document.title_source})",
        f"tags: {', '.join(document.tags)}",
        f"aliases: {', '.join(document.aliases)}",
        f"properties: {document.properties}",
        f"warnings: {list(document.warnings)}",
        *(f"excluded: bytes {gap.start_byte}-{gap.end_byte}, {gap.reason}" for gap in document.excluded),
    ]
    for chunk in document.chunks:
        place = f"lines {chunk.start_line}-{chunk.end_line}, bytes {chunk.start_byte}-{chunk.end_byte}"
        lines += ["", f"=== {chunk.ord}: {HEADING_JOIN.join(chunk.heading_path)} | {place}"]
        lines += [f"  prefix | {line}" for line in chunk.prefix.splitlines()]
        lines += [f"  text   | {line}".rstrip() for line in chunk.text.splitlines()]
        lines += [f"  embed  | {line}".rstrip() for line in chunk.embed_text.splitlines()]
        lines += [f"  tokens | {chunk.lexical}"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("note", sorted(NOTES.glob("*.md")), ids=lambda note: note.stem)
def test_a_note_becomes_these_chunks(note: Path) -> None:
    assert rendered(note) == note.with_suffix(".chunks.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    for note in sorted(NOTES.glob("*.md")):
        note.with_suffix(".chunks.txt").write_text(rendered(note), encoding="utf-8")
