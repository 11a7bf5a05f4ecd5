"""How well the product tells a question about something else from one that its documents answer.

    python tests/bench/bench_relevance.py SET... [--something-else FILE]

A set holds ``docs/`` and ``queries.jsonl``. It is indexed alone, with every default, on an embedded engine, and asked
two kinds of questions, ten hits each. Those of the file (a line each; ``# xx`` begins a language) are about something
else: how many are answered with "nothing relevant", and the first score of the others by the size of its passage. The
set's own have an answer: how many are refused, and how many of those had a right file among the first ten hits once the
same search is asked without the rule.

The shown score, over all hits of both kinds of questions: mean squared error against "is a right file" (1 or 0), and
the area under the ROC curve. Half-right and excluded files count as neither. In brackets the same for the score before
``falling``. Area over questions: of the best score of an answer (0 for "nothing relevant"; in brackets without the
rule), which is to be higher for a question with an answer. Faint: how many have a best score under .05 without the
rule, whatever the size of the set: where there are few chunks, that is what is refused.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from serving import ENDED, machine, percentile

from markdown_rag.app import App
from markdown_rag.evaluation import Question, read_questions
from markdown_rag.facade import IndexCall, Json, SearchCall
from markdown_rag.search.answer import SearchAnswer, SearchRequest
from markdown_rag.search.relevance import dense_scale, relevance
from markdown_rag.search.scoring import file_measures
from markdown_rag.search.searcher import Searcher, SearchPolicy
from markdown_rag.settings import load_settings
from markdown_rag.wiring import Parts

SOMETHING_ELSE = Path(__file__).parents[1] / "data" / "eval" / "something_else.txt"
DEPTH = 10
SHORT = 200  # bytes of a passage
FAINT = 0.05  # relevance._FAINT


@dataclass
class Tally:
    """What was seen.

    hits: score, score before falling, whether right. first: best score, the same without the rule, whether there is an
    answer. sizes: first score and bytes of its passage, of questions about something else.
    """

    else_asked: Counter[str] = field(default_factory=Counter)
    else_refused: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    found: int = 0
    refused: int = 0
    lost: int = 0
    hits: list[tuple[float, float, bool]] = field(default_factory=list)
    first: list[tuple[float, float, bool]] = field(default_factory=list)
    sizes: list[tuple[float, int]] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Several sets together."""
        self.else_asked += other.else_asked
        self.else_refused += other.else_refused
        self.asked, self.found = self.asked + other.asked, self.found + other.found
        self.refused, self.lost = self.refused + other.refused, self.lost + other.lost
        self.hits += other.hits
        self.first += other.first
        self.sizes += other.sizes


def something_else(path: Path) -> list[tuple[str, str]]:
    """Language and question of each line."""
    language, found = "", []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            language = line[2:]
        elif line.strip():
            found.append((language, line.strip()))
    return found


class Set:
    """One folder, indexed, and what it is asked with and without the rule."""

    def __init__(self, folder: Path, state: Path) -> None:
        own = {"MARKDOWN_RAG_CACHE_DIR": str(state), "MARKDOWN_RAG_SERVICE": "off", "HOME": str(state)}
        settings = load_settings({"PATH": os.environ["PATH"], **own})
        self.docs = (folder / "docs").resolve()
        self.questions = read_questions(folder / "queries.jsonl")
        self.chunks = 0
        self._parts = Parts(settings)
        self._app = App(self._parts, settings, folder)
        job_id = self._app.index(IndexCall(root=str(self.docs)))["job_id"]
        while (status := self._app.status(job_id, 20.0)["status"]) not in ENDED:
            pass
        if status != "succeeded":
            raise SystemExit(f"{folder} could not be indexed: {status}")
        reading = self._parts.reading
        self._scale = dense_scale(reading.store.model)
        self._without_rule = Searcher(
            reading.store,
            self._parts.embeddings,
            reading.catalog,
            roots=self._parts.root_of,
            policy=replace(SearchPolicy(), floor=-1.0),
        )

    def ask(self, query: str, k: int = DEPTH) -> Sequence[Json]:
        """The hits; none where nothing is relevant."""
        answer = self._app.search(SearchCall(query, k, workspace=str(self.docs), explain=True))
        if not answer["hits"] and not answer["note"].startswith("Nothing relevant"):
            raise SystemExit(f"No answer to {query!r}: {answer['note']}")
        self.chunks = answer["chunks"]
        hits: Sequence[Json] = answer["hits"]
        return hits

    def files(self, hits: Iterable[Json]) -> list[str]:
        """Of hits, below docs/."""
        return [Path(hit["path"]).relative_to(self.docs).as_posix() for hit in hits]

    def ask_without_rule(self, query: str, k: int = DEPTH) -> SearchAnswer:
        """The same search with nothing refused."""
        return self._without_rule.search(SearchRequest(query, k))

    def before_falling(self, hit: Json) -> float:
        """The score that its parts alone give."""
        return relevance(hit["parts"]["coverage"], hit["parts"].get("similarity"), self._scale)

    def close(self) -> None:
        """End threads, store and engine."""
        self._without_rule.close()
        self._app.close()


def measure(of: Set, elsewhere: Sequence[tuple[str, str]]) -> Tally:
    """Ask everything."""
    seen = Tally()
    for language, query in elsewhere:
        hits = of.ask(query)
        seen.else_asked[language] += 1
        seen.else_refused[language] += not hits
        seen.hits += [(hit["score"], of.before_falling(hit), False) for hit in hits]
        seen.first.append((hits[0]["score"] if hits else 0.0, of.ask_without_rule(query).best_score, False))
        seen.sizes += [(hit["score"], hit["bytes"][1] - hit["bytes"][0]) for hit in hits[:1]]
    for question in of.questions:
        _own(of, question, seen)
    return seen


def _own(of: Set, question: Question, seen: Tally) -> None:
    """One question that has an answer."""
    right = set(question.gold_files)
    neither = {*question.partial_files, *question.exclude_files} - right
    hits = of.ask(question.query, question.depth)
    bare = of.ask_without_rule(question.query, question.depth)
    files = of.files(hits) if hits else [hit.path for hit in bare.hits]
    among = bool(file_measures(files, right, (), question.exclude_files)[f"hit@{DEPTH}"])
    seen.asked += 1
    seen.found += among
    seen.refused += not hits
    seen.lost += among and not hits
    seen.hits += [
        (hit["score"], of.before_falling(hit), file in right)
        for hit, file in zip(hits, of.files(hits), strict=True)
        if file not in neither
    ]
    seen.first.append((hits[0]["score"] if hits else 0.0, bare.best_score, True))


def squared_error(pairs: Sequence[tuple[float, bool]]) -> float:
    """The mean over (score, truth)."""
    return math.fsum((score - truth) ** 2 for score, truth in pairs) / len(pairs)


def area(pairs: Sequence[tuple[float, bool]]) -> float:
    """Under the ROC curve: how often a true one scores above an untrue one, equal scores counting half."""
    true = np.array([score for score, truth in pairs if truth])
    untrue = np.sort([score for score, truth in pairs if not truth])
    below = np.searchsorted(untrue, true, "left") + np.searchsorted(untrue, true, "right")
    return float(below.mean()) / 2 / len(untrue)


def show(name: str, seen: Tally) -> None:
    """The lines of one set."""
    languages = ", ".join(f"{each} {seen.else_refused[each]}/{count}" for each, count in seen.else_asked.items())
    print(
        f"{name}: {seen.else_refused.total()} of {seen.else_asked.total()} about something else refused ({languages})"
    )
    print(
        f"  {seen.lost} lost of {seen.found} whose right file is among the first ten; {seen.refused} of all "
        f"{seen.asked} with an answer refused"
    )
    shown, before = [(s, right) for s, _, right in seen.hits], [(b, right) for _, b, right in seen.hits]
    print(
        f"  shown score, {len(shown):,} hits of {len(seen.first)} questions: squared error {squared_error(shown):.3f} "
        f"(before falling {squared_error(before):.3f}), area {area(shown):.3f} ({area(before):.3f}); "
        f"area over questions {area([(s, own) for s, _, own in seen.first]):.3f} "
        f"({area([(b, own) for _, b, own in seen.first]):.3f})"
    )
    faint = Counter(own for _, best, own in seen.first if best < FAINT)
    print(f"  faint: {faint[True]} of {seen.asked} with an answer, {faint[False]} of {seen.else_asked.total()} others")
    for words, kept in (
        ("under", [s for s, size in seen.sizes if size < SHORT]),
        ("from", [s for s, size in seen.sizes if size >= SHORT]),
    ):
        if kept:
            print(
                f"  first score of the {len(kept)} not refused whose passage has {words} {SHORT} bytes: middle "
                f"{percentile(kept, 0.5):.2f}, of ten one has more than {percentile(kept, 0.9):.2f}",
                flush=True,
            )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path, nargs="+")
    parser.add_argument("--something-else", type=Path, default=SOMETHING_ELSE)
    options = parser.parse_args()
    elsewhere = something_else(options.something_else)
    print(machine(), flush=True)
    together = Tally()
    for folder in options.sets:
        with tempfile.TemporaryDirectory() as state:
            of = Set(folder, Path(state))
            try:
                seen = measure(of, elsewhere)
            finally:
                of.close()
        show(f"{folder.resolve().name} ({of.chunks:,} chunks)", seen)
        together.add(seen)
    if len(options.sets) > 1:
        show("all", together)


if __name__ == "__main__":
    main()
