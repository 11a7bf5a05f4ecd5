"""A small library to search in: a store in memory, word vectors, and a clock moved by hand."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from markdown_rag.clock import ManualClock
from markdown_rag.errors import EmbeddingUnavailable
from markdown_rag.markdown.lexical import analyze, tokens
from markdown_rag.search.answer import SearchAnswer, SearchRequest
from markdown_rag.search.catalog import Catalog
from markdown_rag.search.policy import SearchPolicy
from markdown_rag.search.searcher import Searcher
from markdown_rag.store.base import Match, Model, Record, Where, record_id
from markdown_rag.store.memory import MemoryStore

DIMENSION = 64
settings.register_profile("search", deadline=None)  # a busy machine is no failure
settings.load_profile("search")

MODEL = Model("local", "words", DIMENSION)


class WordVectors:
    """An embedder that counts words into 64 places: texts that share words are near. down: the provider's state."""

    def __init__(self) -> None:
        self.down = False

    def query(self, text: str) -> np.ndarray:
        if self.down:
            raise EmbeddingUnavailable("The provider does not answer.", "Try again later.")
        return word_vector(text)


def word_vector(text: str) -> np.ndarray:
    vector = np.zeros(DIMENSION, dtype=np.float32)
    for token in tokens(text) or [""]:
        vector[zlib.crc32(token.encode()) % DIMENSION] += 1
    return vector / np.linalg.norm(vector)


class Library:
    """Files as they are stored, and a searcher over them."""

    def __init__(self, *, lexical: bool = True, policy: SearchPolicy | None = None, store: MemoryStore | None = None):
        self.store = store or MemoryStore(MODEL, lexical=lexical)
        self.clock = ManualClock()
        self.vectors = WordVectors()
        self.roots: dict[str, Path] = {}
        self.catalog = Catalog(self.store, self.clock)
        self.searcher = self.make(policy or SearchPolicy())

    def make(self, policy: SearchPolicy, *, embeddings: bool = True) -> Searcher:
        return Searcher(
            self.store,
            self.vectors if embeddings else None,
            self.catalog,
            roots=self.roots.get,
            policy=policy,
        )

    def records(
        self,
        path: str,
        chunks: Sequence[str],
        *,
        gen: int = 1,
        workspace: str = "w",
        title: str = "",
        aliases: Sequence[str] = (),
        data: bytes = b"",
    ) -> list[Record]:
        """One generation of a file, in the order in which it is written: ``ord == 0`` last."""
        file_hash = hashlib.sha256(data or "\n".join(chunks).encode()).hexdigest()
        line, rows = 1, []
        for ord_, text in enumerate(chunks):
            last = line + text.count("\n")
            rows.append(
                Record(
                    workspace=workspace,
                    path=path,
                    ord=ord_,
                    chunk_count=len(chunks),
                    gen=gen,
                    title=title or path,
                    heading_path="",
                    text=text,
                    prefix="",
                    lexical=analyze(f"{text} {title}"),
                    tags=(),
                    aliases=tuple(aliases),
                    properties={},
                    start_line=line,
                    end_line=last,
                    start_byte=0,
                    end_byte=len(text.encode()),
                    file_hash=file_hash,
                    text_hash=hashlib.sha256(text.encode()).hexdigest(),
                    policy="p",
                    vector=word_vector(text),
                )
            )
            line = last + 1
        return rows[1:] + rows[:1]

    def add(self, path: str, *chunks: str, **options: object) -> None:
        self.store.insert(self.records(path, chunks, **options))  # type: ignore[arg-type]

    def replace(self, path: str, *chunks: str, gen: int, old: int, old_chunks: int, workspace: str = "w") -> None:
        """New rows in, then the old ones out, as an index run writes."""
        self.add(path, *chunks, gen=gen, workspace=workspace)
        self.store.delete([record_id(workspace, path, old, ord_) for ord_ in range(old_chunks)])

    def ask(self, query: str, k: int = 5, **where: object) -> SearchAnswer:
        return self.searcher.search(SearchRequest(query, k, Where(**where)))  # type: ignore[arg-type]

    def paths(self, query: str, k: int = 5, **where: object) -> list[str]:
        return [hit.path for hit in self.ask(query, k, **where).hits]


@pytest.fixture
def library() -> Iterator[Library]:
    made = Library()
    yield made
    made.searcher.close()


@pytest.fixture
def libraries() -> Iterator[type[Library]]:
    """Makes libraries with other options; their searchers are closed at the end."""
    made: list[Library] = []

    class Kept(Library):
        def __init__(self, **options: object) -> None:
            super().__init__(**options)  # type: ignore[arg-type]
            made.append(self)

    yield Kept
    for library in made:
        library.searcher.close()


def match(id_: str = "", **fields: object) -> Match:
    """A row with everything that a test does not care about filled in."""
    path = str(fields.get("path", "a.md"))
    defaults: dict[str, object] = {
        "score": 0.0,
        "workspace": "w",
        "path": path,
        "ord": 0,
        "gen": 1,
        "title": "",
        "heading_path": "",
        "text": "",
        "prefix": "",
        "lexical": "",
        "tags": (),
        "aliases": (),
        "start_line": 1,
        "end_line": 1,
        "start_byte": 0,
        "end_byte": 1_000,
        "file_hash": "",
        "text_hash": "",
    }
    row = {**defaults, **fields}
    made = id_ or record_id(str(row["workspace"]), path, int(str(row["gen"])), int(str(row["ord"])))
    return Match(id=made, **row)  # type: ignore[arg-type]


@pytest.fixture(scope="session", name="match")
def match_fixture() -> Callable[..., Match]:
    """Makes rows."""
    return match


@pytest.fixture(scope="session")
def new_library() -> type[Library]:
    """For laws that make a library an example; they close its searcher themselves."""
    return Library
