"""A file's bytes become a document: title, tags, properties, and chunks that are ready to be embedded and searched.

Guaranteed for every input (tests/markdown/test_laws.py): every byte of the body is in a chunk or in `excluded`; no
embedded text has more tokens than the policy allows, no field more bytes than the store holds; a chunk's text is
exactly the decoded span of the file; the same bytes give the same chunks; time is linear in the size.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from markdown_rag.markdown.blobs import Blobs, find_blobs
from markdown_rag.markdown.cutting import Atom, Cutter
from markdown_rag.markdown.decoding import Decoded, Undecodable, decode
from markdown_rag.markdown.document import Chunk, Document, Excluded, TitleSource
from markdown_rag.markdown.edges import document_edges
from markdown_rag.markdown.frontmatter import (
    MAX_TITLE,
    FrontMatter,
    bounded_names,
    exact_names,
    shorten,
    split_front_matter,
)
from markdown_rag.markdown.heads import Heads
from markdown_rag.markdown.lexical import analyze
from markdown_rag.markdown.outline import Block, Outline, parse_outline
from markdown_rag.markdown.packing import Piece, pack
from markdown_rag.markdown.sections import common_path, split_sections
from markdown_rag.markdown.splitting import cut
from markdown_rag.markdown.tokens import count

__all__ = ["HEADING_JOIN", "Chunk", "ChunkPolicy", "Document", "Excluded", "chunk_document"]

CHUNKER_VERSION = 4  # part of every policy's fingerprint: a new number re-chunks every file
NO_WORDS = "no words"
HEADING_JOIN = " › "
MAX_LEXICAL = 60_000  # bytes
MAX_FIELDS = 12_000  # bytes of the lexical text that come from title, headings, path, tags
MAX_FRONT = 15_000  # characters of front matter that stand for a file without a body
Gap = tuple[int, int, str]  # start, end, reason
EMPTY = "empty"
_CHARS_PER_TOKEN = 5  # a longer section is hardly whole: it is not counted twice
_FEW = 24  # characters of a text that is one blob, where nothing else can be embedded
# What is left of a text that holds nothing but structure: rules, fences, markers.
_STRUCTURE = re.compile(r"[\s!-/:-@\[-`{-~\ufffd\u2060]*")


@dataclass(frozen=True, slots=True)
class ChunkPolicy:
    """How text is cut; all in cl100k tokens.

    max_tokens bounds the embedded text, its head and prefix included. A chunk under min_tokens takes in the next one, a
    piece under min_final joins the one before it, where both fit. overlap is repeated where a block had to be cut.
    """

    max_tokens: int = 400
    min_tokens: int = 100
    overlap: int = 0
    min_final: int = 50

    @property
    def fingerprint(self) -> str:
        """16 hex digits that stand for this policy and this version of the rules."""
        parts = f"{CHUNKER_VERSION}/{self.max_tokens}/{self.min_tokens}/{self.overlap}/{self.min_final}"
        return hashlib.sha256(parts.encode()).hexdigest()[:16]


def chunk_document(data: bytes, path: str, policy: ChunkPolicy) -> Document | Undecodable:
    """Read a file's bytes; path is its relative POSIX path, which names it and is searched."""
    decoded = decode(data)
    if isinstance(decoded, Undecodable):
        return decoded
    front = split_front_matter(decoded.text)
    outline = parse_outline(decoded.text, front.kept or front.end)
    document = _Chunker(decoded, front, outline, path, policy).document()
    return replace(document, edges=document_edges(decoded.text, outline, front.properties))


@dataclass(frozen=True, slots=True)
class _Passage:
    """A chunk before it has its place: span, and the texts made of it."""

    path: tuple[str, ...]
    start: int
    end: int
    prefix: str
    embedded: str
    words: str
    tokens: int


class _Chunker:
    """One document on its way: what the steps below share."""

    def __init__(self, decoded: Decoded, front: FrontMatter, outline: Outline, path: str, policy: ChunkPolicy) -> None:
        self.decoded, self.front, self.outline, self.policy = decoded, front, outline, policy
        self.text = decoded.text
        # A name that is not UTF-8 comes with lone surrogates, which nobody takes.
        self.path = PurePosixPath(path.encode("utf-8", "replace").decode())
        self.title, self.title_source = self._title()
        self.tags = bounded_names(front.tags + outline.tags)
        self.blobs: Blobs = find_blobs(self.text, front.end)
        self.cutter = Cutter(self.text, self.blobs, min(policy.overlap, policy.max_tokens // 4))
        self.heads = Heads("" if self.title_source == "stem" else self.title, policy.max_tokens // 4)
        file = re.sub(r"[/_-]", " ", str(self.path.with_suffix("")) if self.path.name else "")
        self._exact = " ".join(exact_names(front))
        self._named = analyze(self.title), analyze(" ".join(front.aliases + self.tags)), analyze(file)
        self._fields: dict[tuple[str, ...], str] = {}

    def document(self) -> Document:
        passages, gaps = self._passages()
        warnings = self.decoded.warnings + self.front.warnings
        if not passages and self.front.end and (self.title_source != "stem" or self.tags or self.front.aliases):
            passages = [self._front_passage()]
        if not passages:
            warnings += (EMPTY,)
        offset = self.decoded.lines.byte_offset
        return Document(
            title=self.title,
            title_source=self.title_source,
            aliases=self.front.aliases,
            tags=self.tags,
            description=self.front.description,
            properties=self.front.properties or {},
            chunks=tuple(self._chunk(number, passage) for number, passage in enumerate(passages)),
            excluded=tuple(Excluded(offset(start), offset(end), reason) for start, end, reason in gaps),
            warnings=warnings,
            encoding=self.decoded.encoding,
        )

    def _title(self) -> tuple[str, TitleSource]:
        if self.front.title:
            return self.front.title, "frontmatter"
        heading = next((h.text for h in self.outline.headings if h.level == 1 and h.text), "")
        return (shorten(heading, MAX_TITLE), "heading") if heading else (shorten(self.path.stem, MAX_TITLE), "stem")

    def _passages(self) -> tuple[list[_Passage], list[Gap]]:
        """The chunks to be, and the spans that are in none."""
        gaps = list(self.blobs.long)
        passages: list[_Passage] = []
        for piece in self._merged(self._pieces()):
            for part, tokens in self._settled(piece):
                if self._wordless(part.start, part.end):
                    gaps.append((part.start, part.end, NO_WORDS))
                    continue
                words = self.blobs.without(self.text, part.start, part.end)
                prefix, embedded = part.atoms[0].prefix, self._embedded(part)
                passages.append(_Passage(part.path, part.start, part.end, prefix, embedded, words, tokens))
        return passages, _coalesced(gaps)

    def _pieces(self) -> list[Piece]:
        """Every section cut to the limits, in order."""
        blocks = self.outline.blocks
        if self.front.kept:
            blocks = (Block("text", 0, self.front.kept), *blocks)
        starts = [block.start for block in blocks]
        pieces: list[Piece] = []
        for section in split_sections(self.text, self.outline, self.front.end):
            for start, end in self.blobs.kept(section.start, section.end):
                first = max(0, bisect_right(starts, start) - 1)
                pieces += self._cut(section.path, blocks[first : bisect_left(starts, end)], start, end)
        return pieces

    def _cut(self, path: tuple[str, ...], blocks: tuple[Block, ...], start: int, end: int) -> list[Piece]:
        """A span of one section as pieces; whole where it fits."""
        room = self._room(path)
        whole = all(start <= block.start and block.end <= end for block in blocks if block.end > start)
        if whole and end - start <= room * _CHARS_PER_TOKEN:
            tokens = self.cutter.tokens(start, end)
            if tokens <= room:
                return [Piece.of((Atom(start, end, tokens, start),), path)]
        return [Piece.of(run, path) for run in pack(self.cutter.atoms(blocks, start, end, room), room, self.cutter)]

    def _merged(self, pieces: list[Piece]) -> list[Piece]:
        """Small neighbours joined in order, as far as they fit."""
        merged: list[Piece] = []
        for piece in pieces:
            joined = self._joined(merged[-1], piece) if merged else None
            if joined:
                merged[-1] = joined
            else:
                merged.append(piece)
        return merged

    def _joined(self, last: Piece, piece: Piece) -> Piece | None:
        if not piece.follows(last):
            return None
        if last.tokens >= self.policy.min_tokens and piece.tokens >= self.policy.min_final:
            return None
        path = common_path(last.path, piece.path)
        if path != last.path and self._wordless(last.start, last.end):
            path = piece.path
        elif path != piece.path and self._wordless(piece.start, piece.end):
            path = last.path
        joined = last.joined(piece, path)
        return joined if joined.cost <= self._room(path) and self.cutter.bytes_fit(joined.start, joined.end) else None

    def _settled(self, piece: Piece) -> list[tuple[Piece, int]]:
        """The piece with its tokens, or smaller ones where the exact count of what is embedded is over the limit."""
        limit = self.policy.max_tokens
        tokens = piece.cost + self.heads.of(piece.path)[1]
        if tokens > 0.95 * limit or self._is_loose(piece):
            tokens = count(self._embedded(piece))
        if tokens <= limit:
            return [(piece, tokens)]
        if len(piece.atoms) > 1:
            return [part for half in piece.halves() for part in self._settled(half)]
        atoms = self.cutter.smaller(piece.atoms[0], tokens - limit)
        return [part for atom in atoms for part in self._settled(Piece.of((atom,), piece.path))] or [(piece, tokens)]

    def _is_loose(self, piece: Piece) -> bool:
        """Whether the counts of its parts may add up to less than the whole: they do not where all begin a line."""
        borders = (piece.start, *(atom.start for atom in piece.atoms), piece.end)
        inside = any(border and self.text[border - 1] != "\n" for border in borders)
        return inside or bool(self.blobs.within(piece.start, piece.end))

    def _room(self, path: tuple[str, ...]) -> int:
        """Tokens left for a chunk's own text."""
        return self.policy.max_tokens - self.heads.of(path)[1]

    def _wordless(self, start: int, end: int) -> bool:
        return _STRUCTURE.fullmatch(self.text, start, end) is not None

    def _embedded(self, piece: Piece) -> str:
        """Head, prefix and text without blobs, closed where it ends inside a fence."""
        body = self.blobs.without(self.text, piece.start, piece.end).strip("\n").rstrip()
        closing = piece.atoms[-1].closing
        whole = piece.atoms[0].prefix + body + (f"\n{closing}" if closing else "")
        parts = [part for part in (self.heads.of(piece.path)[0], whole) if part.strip()]
        return "\n".join(parts) or self.text[piece.start : piece.end].strip()[:_FEW]

    def _chunk(self, number: int, passage: _Passage) -> Chunk:
        lines = self.decoded.lines
        return Chunk(
            ord=number,
            heading_path=passage.path,
            text=self.text[passage.start : passage.end],
            prefix=passage.prefix,
            start_line=lines.line(passage.start),
            end_line=lines.line(max(passage.start, passage.end - 1)),
            start_byte=lines.byte_offset(passage.start),
            end_byte=lines.byte_offset(passage.end),
            embed_text=passage.embedded,
            text_hash=hashlib.sha256(passage.embedded.encode()).hexdigest(),
            tokens=passage.tokens,
            lexical=self._lexical(passage.path, passage.words if number else f"{passage.words}\n{self._exact}"),
        )

    def _lexical(self, path: tuple[str, ...], words: str) -> str:
        """The chunk's words, and where it stands: title thrice, headings and path twice, aliases and tags once.

        The words of a file's first chunk are also the exact names in its front matter (``signatures: [PAGE.Next]``).
        """
        if path not in self._fields:
            title, names, file = self._named
            parts = (title,) * 3 + (analyze(" ".join(path)),) * 2 + (file,) * 2 + (names,)
            self._fields[path] = _clip(" ".join(part for part in parts if part), MAX_FIELDS)
        body = _clip(analyze(words), MAX_LEXICAL - MAX_FIELDS - 1)
        return f"{body} {self._fields[path]}".strip()

    def _front_passage(self) -> _Passage:
        """The only chunk of a file that has front matter and no words besides."""
        start, end = 0, self.front.end
        if not self.text.startswith("{"):
            start, end = self.text.find("\n") + 1, self.text.rfind("\n", 0, end - 1) + 1
        parts = self.heads.title, self.front.description or ", ".join(self.front.aliases + self.tags)
        words = "\n".join(part for part in parts if part)
        first, last, _ = cut(words, 0, len(words), self.policy.max_tokens)[0]
        embedded = words[first:last].strip()
        end = min(end, start + MAX_FRONT)
        return _Passage((), start, end, "", embedded, self.front.description, count(embedded))


def _coalesced(gaps: list[Gap]) -> list[Gap]:
    """Gaps in order; what has no words belongs to the blob beside it."""
    found: list[Gap] = []
    for start, end, reason in sorted(gaps):
        if found and found[-1][1] == start and NO_WORDS in (reason, found[-1][2]):
            first, _, before = found.pop()
            found.append((first, end, reason if before == NO_WORDS else before))
        else:
            found.append((start, end, reason))
    return found


def _clip(words: str, limit: int) -> str:
    """Whole tokens of at most `limit` bytes."""
    if len(words) * 4 <= limit or len(words.encode()) <= limit:
        return words
    return words.encode()[: limit + 1].decode("utf-8", "ignore").rpartition(" ")[0]
