"""What answers are like, through the product: exact names first, tokens of an answer, memory of many searches.

    python tests/bench/bench_answers.py SET... [--searches 1000]

A set holds ``docs/`` and ``queries.jsonl``. Names: at most 200 that look like exact names and stand in one document
alone; how often that document comes first. Pairs: at most 200 of neighbouring words, each known from five documents and
more, that stand side by side in one document alone; how often that is among the first five, and first. Tokens: of the
text of an answer with k 5, over the set's questions. Memory: of this process after a first round of questions and after
as many searches as asked for, all of them different.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import tempfile
from itertools import pairwise
from pathlib import Path

import psutil
from serving import ENDED, machine

from markdown_rag.evaluation import read_questions
from markdown_rag.facade import Facade, IndexCall, SearchCall
from markdown_rag.markdown.lexical import looks_like_identifier
from markdown_rag.markdown.tokens import count
from markdown_rag.server.render import search_text
from markdown_rag.service.opening import open_facade

NAMES = PAIRS = 200
_KNOWN = 5, 100  # documents that each word of a pair stands in
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*|\S")
_NAME = re.compile(r"(?<![\w/.\-])(?:--?)?[A-Za-z]\w*(?:[._\-/:]\w+)*(?![\w/\-])")


def exact_names(docs: Path) -> list[tuple[str, str]]:
    """Names that one document alone holds in any case, with that document; the same ones each time."""
    holders: dict[str, set[str]] = {}
    spelled: dict[str, str] = {}
    for path in sorted(docs.rglob("*.md")):
        for name in _NAME.findall(path.read_text(encoding="utf-8", errors="replace")):
            holders.setdefault(name.casefold(), set()).add(str(path))
            spelled.setdefault(name.casefold(), name)
    found = [
        (spelled[name], *paths)
        for name, paths in sorted(holders.items())
        if len(paths) == 1 and 4 <= len(name) <= 40 and looks_like_identifier(spelled[name])
    ]
    random.Random(1).shuffle(found)
    return found[:NAMES]


def word_pairs(docs: Path) -> list[tuple[str, str]]:
    """Pairs of words that one document alone has side by side, with that document; the same ones each time."""
    holders: dict[str, set[str]] = {}
    pairs: dict[tuple[str, str], set[str]] = {}
    for path in sorted(docs.rglob("*.md")):
        words = [word.lower() for word in _WORD.findall(path.read_text(encoding="utf-8", errors="replace"))]
        for one, other in pairwise(words):
            holders.setdefault(one, set()).add(str(path))
            if min(len(one), len(other)) > 3 and one.isalpha() and other.isalpha() and one != other:
                pairs.setdefault((one, other), set()).add(str(path))
    least, most = _KNOWN
    found = [
        (" ".join(pair), *paths)
        for pair, paths in sorted(pairs.items())
        if len(paths) == 1 and all(least <= len(holders.get(word, ())) <= most for word in pair)
    ]
    random.Random(1).shuffle(found)
    return found[:PAIRS]


def measure(app: Facade, folder: Path, searches: int) -> None:
    docs = (folder / "docs").resolve()
    job_id = app.index(IndexCall(root=str(docs)))["job_id"]
    while app.status(job_id, 20.0)["status"] not in ENDED:
        pass

    def ask(query: str, k: int = 5) -> dict[str, object]:
        return app.search(SearchCall(query, k, workspace=str(docs)))

    names = exact_names(docs)
    first = [name for name, path in names if [hit["path"] for hit in ask(name, 1)["hits"]] == [path]]  # type: ignore[attr-defined]
    pairs = word_pairs(docs)
    found = [([hit["path"] for hit in ask(pair)["hits"]], path) for pair, path in pairs]  # type: ignore[attr-defined]
    among = [paths for paths, path in found if path in paths]
    leading = [paths for paths, path in found if paths[:1] == [path]]
    asked = [question.query for question in read_questions(folder / "queries.jsonl")]
    tokens = [count(search_text(ask(query))) for query in asked]
    here = psutil.Process()
    before = here.memory_info().rss / 2**20
    for number in range(searches):
        ask(f"{asked[number % len(asked)]} {number}")
    after = here.memory_info().rss / 2**20
    print(
        f"{folder.name}: {len(first)} of {len(names)} exact names first ({len(first) / len(names):.3f}); {len(among)} "
        f"of {len(pairs)} pairs of words among the first five, {len(leading)} first; answers have "
        f"{statistics.median(tokens):.1f} tokens in the middle, {max(tokens)} at most, over {len(asked)} questions; "
        f"{before:.0f} MB before {searches} searches, {after:.0f} MB after",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path, nargs="+")
    parser.add_argument("--searches", type=int, default=1000)
    options = parser.parse_args()
    print(machine())
    for folder in options.sets:
        with tempfile.TemporaryDirectory() as state:
            own = {"MARKDOWN_RAG_CACHE_DIR": state, "MARKDOWN_RAG_SERVICE": "off"}
            app = open_facade({"PATH": os.environ["PATH"], "HOME": state, **own}, folder)
            try:
                measure(app, folder, options.searches)
            finally:
                app.close()


if __name__ == "__main__":
    main()
