"""What each step of the ranking brings: ``bench_ranking.py FOLDER... [--cache FILE] [--beside FOLDER]``.

A folder holds ``docs/`` and ``queries.jsonl``. Its chunks are kept in memory and searched exactly; everything behind
the two searches is the product's own code. Printed is the mean nDCG@10 of each way alone, of the recipe, of the
defaults, and of the defaults with one step switched off, with the paired difference and its standard error. ``--cache``
keeps vectors between runs. ``--beside`` adds the documents of other folders as distractors to every set.
"""

from __future__ import annotations

import argparse
import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from markdown_rag.embeddings.base import Role
from markdown_rag.embeddings.local import LocalEmbedder
from markdown_rag.evaluation import Question, read_questions
from markdown_rag.indexing.records import records
from markdown_rag.markdown.chunking import ChunkPolicy, Document, chunk_document
from markdown_rag.search import parts, query, ranking
from markdown_rag.search.policy import RECIPE, SearchPolicy
from markdown_rag.search.scoring import difference, file_measures
from markdown_rag.store.base import Match, Vector

K1, B = 1.2, 0.75
DEFAULTS = SearchPolicy()
STEPS = {
    "messages": replace(DEFAULTS, messages=False),
    "several questions": replace(DEFAULTS, parts=1),
    "whole short names": replace(DEFAULTS, whole_words=0),
    "names": replace(DEFAULTS, title_weight=0.0),
    "likeness of words in names": replace(DEFAULTS, name_likeness=1.0),
    "folder with name": replace(DEFAULTS, folder_names=False),
    "exact name": replace(DEFAULTS, exact_name=0.0),
    "opening": replace(DEFAULTS, opening_weight=0.0),
    "phrase": replace(DEFAULTS, phrase_weight=0.0),
    "(a second chunk, switched on)": replace(DEFAULTS, second_chunk=0.1),
    "gate": replace(DEFAULTS, gate_full=0.0),
    "gate beyond one word": replace(DEFAULTS, gate_low=0.1, gate_full=0.6 / 0.9),
    "exact identifiers": replace(DEFAULTS, identifier_words=0),
    "thin chunks": replace(DEFAULTS, thin_bytes=0),
}


class Vectors:
    """Vectors of texts, kept in a file."""

    def __init__(self, cache: Path | None) -> None:
        self._cache = cache
        self._embedder = LocalEmbedder(1)
        self._known: dict[str, Vector] = {}
        if cache and cache.exists():
            with np.load(cache) as kept:
                self._known = dict(zip(kept["names"].tolist(), kept["vectors"], strict=True))

    def of(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of length 1 for each."""
        names = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        missing = [
            (name, text) for name, text in dict(zip(names, texts, strict=True)).items() if name not in self._known
        ]
        for start in range(0, len(missing), 32):
            part = missing[start : start + 32]
            rows = self._embedder.embed([text for _, text in part], Role.DOCUMENT)
            for (name, _), row in zip(part, rows, strict=True):
                self._known[name] = row / max(float(np.linalg.norm(row)), 1e-9)
        return [self._known[name] for name in names]

    def save(self) -> None:
        """Keep them."""
        if self._cache:
            np.savez(self._cache, names=list(self._known), vectors=np.stack(list(self._known.values())))


class Exact:
    """Chunks in memory, searched without approximation."""

    def __init__(self, folders: Sequence[Path], vectors: Vectors) -> None:
        self.rows: list[Match] = []
        stored: list[Vector] = []
        for folder in folders:
            for path in sorted(
                p for p in (folder / "docs").rglob("*") if p.suffix.lower() in {".md", ".markdown", ".mdx"}
            ):
                name = path.relative_to(folder / "docs").as_posix()
                document = chunk_document(path.read_bytes(), name, ChunkPolicy())
                if isinstance(document, Document) and document.chunks:
                    embedded = vectors.of([chunk.embed_text for chunk in document.chunks])
                    made = records(
                        folder.name, name, 1, document, embedded, file_hash="", policy="", document_weight=0.5
                    )
                    stored += [record.vector for record in made]
                    self.rows += [to_match(record) for record in made]
        self.matrix = np.stack(stored)
        counts = [Counter(row.lexical.split()) for row in self.rows]
        lengths = np.array([sum(count.values()) for count in counts], dtype=float)
        self._norm = K1 * (1 - B + B * lengths / lengths.mean())
        postings: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for at, count in enumerate(counts):
            for token, times in count.items():
                postings[token][0].append(at)
                postings[token][1].append(times)
        self._postings = {token: (np.array(at), np.array(times)) for token, (at, times) in postings.items()}

    def dense(self, vector: Vector, limit: int) -> list[Match]:
        """The nearest rows."""
        scores = self.matrix @ vector
        return [replace(self.rows[at], score=float(scores[at])) for at in np.argsort(-scores, kind="stable")[:limit]]

    def lexical(self, tokens: Sequence[str], limit: int) -> list[Match]:
        """The best rows by BM25."""
        scores = np.zeros(len(self.rows))
        for token in tokens:
            if token in self._postings:
                at, times = self._postings[token]
                idf = math.log(1 + (len(self.rows) - len(at) + 0.5) / (len(at) + 0.5))
                scores[at] += idf * times * (K1 + 1) / (times + self._norm[at])
        best = [at for at in np.argsort(-scores, kind="stable")[:limit] if scores[at] > 0]
        return [replace(self.rows[at], score=float(scores[at])) for at in best]


def to_match(record: object) -> Match:
    """A record as it is found."""
    fields = {name: getattr(record, name) for name in Match.__slots__ if name != "score"}
    return Match(score=0.0, **fields)


@dataclass
class Bench:
    """One set: what each question finds is fetched once."""

    exact: Exact
    questions: list[Question]
    vectors: Vectors

    def __post_init__(self) -> None:
        self._found: dict[tuple[str, tuple[str, ...]], tuple[list[Match], list[Match]]] = {}

    def legs(self, asked: query.Query) -> tuple[list[Match], list[Match]]:
        """Both lists of a query."""
        key = asked.text, asked.tokens
        if key not in self._found:
            (vector,) = self.vectors.of([asked.text])
            self._found[key] = self.exact.dense(vector, 100), self.exact.lexical(asked.tokens, 100)
        return self._found[key]

    def scores(self, policy: SearchPolicy) -> list[float]:
        """nDCG@10 of each question."""
        return [self._ndcg(question, self._files(question.query, policy)) for question in self.questions]

    def alone(self, leg: int) -> list[float]:
        """The same for one way of searching: 0 similarity, 1 keywords."""
        plain = DEFAULTS.one_leg()
        return [
            self._ndcg(question, [row.path for row in self.legs(query.prepare(question.query, plain))[leg]])
            for question in self.questions
        ]

    def _files(self, text: str, policy: SearchPolicy) -> list[str]:
        asked = query.prepare(text, policy)
        lists = []
        for part in (asked, *asked.parts):
            dense, lexical = self.legs(part)
            scored = ranking.score_chunks(part, ranking.gather(part, dense, lexical), policy, 0.2)
            lists.append([placed.match.path for placed in ranking.rank(scored, policy, lambda row: row.path)])
        return parts.take_turns(lists)

    @staticmethod
    def _ndcg(question: Question, files: Sequence[str]) -> float:
        return file_measures(files, question.gold_files, question.partial_files, question.exclude_files)["ndcg@10"]


def show(name: str, rows: Sequence[Sequence[float]], against: Sequence[Sequence[float]] | None = None) -> None:
    """One line of the table."""
    means = [math.fsum(row) / len(row) for row in rows]
    cells = [f"{mean:.4f}" for mean in means]
    if against:
        pairs = [difference(row, other) for row, other in zip(rows, against, strict=True)]
        cells = [f"{cell} {pair.mean:+.4f} ({pair.error:.4f})" for cell, pair in zip(cells, pairs, strict=True)]
    print(f"{name:<36}" + "  ".join(cells) + f"  mean {math.fsum(means) / len(means):.4f}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--beside", type=Path, action="append", default=[])
    options = parser.parse_args()
    vectors = Vectors(options.cache)
    benches = [
        Bench(Exact([folder, *options.beside], vectors), read_questions(folder / "queries.jsonl"), vectors)
        for folder in options.folders
    ]
    print(f"{'':<36}" + "  ".join(folder.resolve().name for folder in options.folders))
    show("keywords alone", [bench.alone(1) for bench in benches])
    show("similarity alone", [bench.alone(0) for bench in benches])
    recipe = [bench.scores(RECIPE) for bench in benches]
    show("recipe", recipe)
    full = [bench.scores(DEFAULTS) for bench in benches]
    show("defaults, against recipe", full, recipe)
    for name, policy in STEPS.items():
        show(f"without {name}", [bench.scores(policy) for bench in benches], full)
    vectors.save()


if __name__ == "__main__":
    main()
