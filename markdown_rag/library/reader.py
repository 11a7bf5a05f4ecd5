"""A request for text becomes text with proof: where it stands, where it comes from, and whether the index still agrees.

Where the file is on this machine its bytes are read, as they are now; else the rows of the index are. A passage that an
id names is looked for by its text, so an id outlives edits: what it became (moved, changed, deleted) is part of the
answer. Every answer is bounded by tokens, and what was cut can be had by its continuation.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from markdown_rag.errors import InputError, StoreUnavailable
from markdown_rag.library import portions
from markdown_rag.library.passages import Continuation, PassageId
from markdown_rag.library.portions import Portion
from markdown_rag.library.texts import DiskText, Exact, Row, StoredText, Text
from markdown_rag.markdown.chunking import ChunkPolicy, Document
from markdown_rag.markdown.decoding import Undecodable, decode
from markdown_rag.markdown.documents import to_document
from markdown_rag.markdown.names import MAX_FILE_BYTES
from markdown_rag.paths import file_digest
from markdown_rag.search.catalog import Catalog
from markdown_rag.search.disk import Absence, read_file
from markdown_rag.search.freshness import Freshness, find_passage
from markdown_rag.search.generations import key_of
from markdown_rag.store.base import FileEntry, Match, Store, record_id

MIN_TOKENS, MAX_TOKENS = 50, 50_000  # of an answer
MAX_NEIGHBOURS = 50  # chunks before or after
_GONE = (
    "The file is not on disk any more: it was deleted, moved or renamed after it was indexed, and its old text is not "
    "shown. index_documents takes it out of the index; afterwards this id leads to the file its text moved to, if any."
)


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What to read of a file: one of passage, continuation, heading and lines, else everything.

    before, after: chunks round a passage. section: the whole section it stands in. reconstruct: exact text and proof.
    """

    entry: FileEntry
    passage: PassageId | None = None
    continuation: Continuation | None = None
    heading: str = ""
    lines: str = ""
    before: int = 0
    after: int = 0
    section: bool = False
    reconstruct: bool = False
    max_tokens: int = 4_000

    @property
    def is_alone(self) -> bool:
        """Whether a passage is wanted without what stands round it."""
        return not (self.section or self.before > 0 or self.after > 0)


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """Text and where it stands. text "" with a note where there is none to show.

    heading: the headings above its start. freshness: of the passage, or of the file. stale: the file on disk is not
    the one that was indexed. start_line, end_line: of the text, blank lines at its end included. was_lines: where a
    passage that moved was, if the text is the passage and no more. continuation: where to go on, None at the end.
    outline: of a document that was cut.
    """

    entry: FileEntry
    text: str
    freshness: Freshness
    source: str = "disk"
    stale: bool = False
    start_line: int = 0
    end_line: int = 0
    total_lines: int = 0
    heading: tuple[str, ...] = ()
    was_lines: tuple[int, int] | None = None
    continuation: Continuation | None = None
    proof: Exact | None = None
    outline: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Opened:
    """A document's text, and what is known of its standing. file_hash: of the bytes the text was made from."""

    text: Text
    freshness: Freshness
    file_hash: str
    rows: tuple[Row, ...] | None = None  # known already, else to be had from the index
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """Where a passage stands now. shift: how many lines further down than when it was indexed, where that is known.

    within: the passage itself, where the portion is the section round it.
    """

    portion: Portion
    freshness: Freshness
    shift: int = 0
    note: str = ""
    within: Portion | None = None

    def fitting(self, text: Text, max_tokens: int) -> _Found:
        """Without the beginning of a section that would leave no room for the passage."""
        inside = self.within
        if inside is None or portions.fitting(text.text, self.portion, max_tokens).end >= inside.end:
            return self
        line = text.line(self.portion.start)
        note = f"The section begins at line {line} and is longer than max_tokens; shown from the passage on."
        return replace(self, portion=Portion(inside.start, self.portion.end), note=f"{self.note} {note}".strip())


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads documents. chunking: how a file that changed since it was indexed is cut to find a passage in it."""

    store: Store
    catalog: Catalog
    chunking: ChunkPolicy

    def read(self, request: ReadRequest, root: Path | None) -> ReadAnswer:
        """The text a request means. root: of its workspace on this machine. Raises InputError, StoreError."""
        opened = self._open(request.entry, root)
        if opened is None:
            return ReadAnswer(request.entry, "", Freshness.DELETED, stale=True, notes=(_GONE,))
        max_tokens = min(max(request.max_tokens, MIN_TOKENS), MAX_TOKENS)
        found = self._find(request, opened).fitting(opened.text, max_tokens)
        text, whole = opened.text, found.portion
        shown = portions.fitting(text.text, whole, max_tokens)
        body = text.text[shown.start : shown.end]
        lines = text.line(shown.start), text.line(max(shown.start, shown.end - 1))
        cut = shown.end < whole.end
        return ReadAnswer(
            entry=request.entry,
            text=body,
            freshness=found.freshness,
            source=text.source,
            stale=opened.freshness is Freshness.CHANGED,
            start_line=lines[0],
            end_line=lines[1],
            total_lines=text.lines,
            heading=portions.heading_path(portions.headings_of(text), shown.start + _blank(body)),
            was_lines=(lines[0] - found.shift, lines[1] - found.shift) if found.shift and request.is_alone else None,
            continuation=_continuation(request.entry, opened, shown.end, whole.end) if cut else None,
            proof=text.exact(shown.start, shown.end) if request.reconstruct else None,
            outline=portions.outline(text, max_tokens) if cut and not request.continuation else (),
            notes=tuple(note for note in (_of_file(opened, found), found.note) if note),
        )

    def _open(self, entry: FileEntry, root: Path | None) -> _Opened | None:
        """The document's text; None where its file was deleted."""
        if root is None:
            return self._stored(entry, Freshness.REMOTE, "The file is on another machine; this is its indexed text.")
        data = read_file(root, entry.path, MAX_FILE_BYTES)
        if data is Absence.GONE:
            return None
        if isinstance(data, Absence):
            why = "something else has its place" if data is Absence.REPLACED else "it cannot be read now"
            freshness = Freshness.CHANGED if data is Absence.REPLACED else Freshness.UNCHECKED
            return self._stored(entry, freshness, f"The file on disk is not shown, as {why}; this is its indexed text.")
        decoded = decode(data)
        if isinstance(decoded, Undecodable):
            why = f"The file is no text any more ({decoded.reason}); this is its indexed text."
            return self._stored(entry, Freshness.CHANGED, why)
        text, digest = DiskText(data, decoded), hashlib.sha256(data).hexdigest()
        if digest == entry.file_hash:
            return _Opened(text, Freshness.FRESH, digest)
        document = to_document(data, entry.path, self.chunking)
        rows = document.chunks if isinstance(document, Document) else ()
        note = "The file changed after it was indexed; this is its text now. index_documents updates the search."
        return _Opened(text, Freshness.CHANGED, digest, rows, note)

    def _stored(self, entry: FileEntry, freshness: Freshness, note: str) -> _Opened:
        entry, rows = self._rows(entry)
        return _Opened(StoredText.of(rows), freshness, entry.file_hash, tuple(rows), note)

    def _rows(self, entry: FileEntry) -> tuple[FileEntry, list[Match]]:
        """All rows of a generation in order, and its entry: the given one, or what has replaced it meanwhile."""
        rows = self._whole(entry)
        if not rows:
            entry = self.catalog.fresh((entry.workspace,)).files.get(key_of(entry), entry)
            rows = self._whole(entry)
        if not rows:
            self.catalog.forget()
            raise StoreUnavailable(f"{entry.path} is being indexed anew at this moment.", "Ask again.")
        return entry, rows

    def _whole(self, entry: FileEntry) -> list[Match]:
        """The rows of a generation in order, [] if any is missing."""
        ids = [record_id(entry.workspace, entry.path, entry.gen, ord_) for ord_ in range(entry.chunk_count)]
        rows = sorted(self.store.get(ids), key=lambda row: row.ord)
        return rows if len(rows) == len(ids) else []

    def _find(self, request: ReadRequest, opened: _Opened) -> _Found:
        text = opened.text
        if request.continuation:
            return _Found(_continued(request.continuation, opened, request.entry), opened.freshness)
        if request.passage:
            found = self._passage(request, request.passage, opened)
            if not request.section:
                return found
            return replace(found, portion=portions.sections_of(text, found.portion), within=found.portion)
        if request.heading:
            return _Found(portions.by_heading(text, request.heading), opened.freshness)
        if request.lines:
            return _Found(portions.by_lines(text, *portions.parse_lines(request.lines)), opened.freshness)
        return _Found(Portion(0, len(text.text)), opened.freshness)

    def _passage(self, request: ReadRequest, wanted: PassageId, opened: _Opened) -> _Found:
        """The passage of an id with its neighbours, or what has taken its place."""
        rows: tuple[Row, ...] = opened.rows if opened.rows is not None else self._rows_of(opened, request.entry)
        if not rows:
            return _Found(Portion(0, len(opened.text.text)), Freshness.CHANGED, note="The passage is gone.")
        same = [row for row in rows if row.text_hash.startswith(wanted.text)]
        row = min(same, key=lambda each: abs(each.ord - wanted.ord), default=None)
        stored = None if opened.freshness is Freshness.FRESH else self._stored_passage(request.entry, wanted)
        if row is None:
            return _edited(request, wanted, opened, rows, stored)
        portion = _around(opened.text, rows, row, request)
        if stored is not None and opened.freshness is Freshness.CHANGED and opened.text.source == "disk":
            return _standing(portion, row.start_line - stored.start_line)
        moved = row.ord != wanted.ord and opened.freshness is Freshness.FRESH
        note = (
            "The document was indexed anew after that answer, and the passage stands elsewhere in it." if moved else ""
        )
        return _Found(portion, Freshness.MOVED if moved else opened.freshness, note=note)

    def _rows_of(self, opened: _Opened, entry: FileEntry) -> tuple[Match, ...]:
        """The rows of the text that was opened: those of other bytes would stand elsewhere in it."""
        entry, rows = self._rows(entry)
        if entry.file_hash != opened.file_hash:
            raise StoreUnavailable(f"{entry.path} changed at this moment.", "Ask again.")
        return tuple(rows)

    def _stored_passage(self, entry: FileEntry, wanted: PassageId) -> Match | None:
        """The row that an id was made from, if it is still stored."""
        found = self.store.get([record_id(entry.workspace, entry.path, entry.gen, wanted.ord)])
        return next((row for row in found if row.text_hash.startswith(wanted.text)), None)


def _edited(
    request: ReadRequest, wanted: PassageId, opened: _Opened, rows: tuple[Row, ...], stored: Match | None
) -> _Found:
    """A passage that is none of the rows any more: where its text stands all the same, or what has its place."""
    text = opened.text
    if stored is not None and isinstance(text, DiskText):
        at = find_passage(text.decoded, stored.text, stored.start_line)
        if at >= 0:
            body = stored.text.strip("\n")
            indexed = stored.start_line + stored.text.index(body[0])  # after its blank lines
            return _standing(Portion(at, at + len(body)), text.line(at) - indexed)
    near = rows[min(wanted.ord, len(rows) - 1)]
    note = "No passage has that text: it was edited, or the id is mistyped. Shown is what stands in its place now."
    return _Found(_around(text, rows, near, request), Freshness.CHANGED, note=note)


def _standing(portion: Portion, shift: int) -> _Found:
    """A passage that still stands in a file that changed, at other lines or at the same."""
    return _Found(portion, Freshness.MOVED if shift else Freshness.FRESH, shift)


def _of_file(opened: _Opened, found: _Found) -> str:
    """What is to be known of the file; nothing that changed in it matters to a passage that stands where it stood."""
    return "" if found.freshness is Freshness.FRESH else opened.note


def _around(text: Text, rows: tuple[Row, ...], row: Row, request: ReadRequest) -> Portion:
    """A row with its neighbours, joined without their overlap."""
    first = max(0, row.ord - min(max(0, request.before), MAX_NEIGHBOURS))
    last = min(len(rows) - 1, row.ord + min(max(0, request.after), MAX_NEIGHBOURS))
    return Portion(*text.span(rows[first], rows[last]))


def _continuation(entry: FileEntry, opened: _Opened, start: int, end: int) -> Continuation:
    digest = file_digest(entry.workspace, entry.path)
    return Continuation(opened.text.source, digest, opened.file_hash[:12], start, end)


def _continued(given: Continuation, opened: _Opened, entry: FileEntry) -> Portion:
    if given.source != opened.text.source or given.file_hash != opened.file_hash[:12]:
        raise InputError(f"{entry.path} has changed since that answer.", "Read it again by path, heading or lines.")
    size = len(opened.text.text)
    if not given.start < given.end <= size:
        raise InputError("continue_from leads beyond the document.", "Pass it as the answer before gave it.")
    return Portion(given.start, given.end)


def _blank(body: str) -> int:
    """How many characters stand before the first visible one, 0 where there is none."""
    return len(body) - len(body.lstrip()) if body.strip() else 0
