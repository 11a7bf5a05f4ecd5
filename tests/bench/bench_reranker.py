"""What a cross-encoder brings and costs: ``bench_reranker.py MODEL SET... [--questions N] [--lang en]``.

MODEL: what ``RERANK_MODEL`` takes, a folder or a name. Each set is indexed once, with every default, on an embedded
engine; then each question (the first N of the set, those in one language) is asked without and with the model, in
turns. Printed: mean nDCG@10 of both, the paired difference with its standard error, and the processor time of this
process for a question: the model runs in it, the engine does not.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from serving import ENDED, machine

from markdown_rag.evaluation import Question, read_questions
from markdown_rag.facade import Facade, IndexCall, SearchCall
from markdown_rag.search.scoring import difference, estimate, file_measures
from markdown_rag.service.opening import open_facade


class Side:
    """One way of asking."""

    def __init__(self, app: Facade, docs: Path) -> None:
        self._app, self._docs = app, docs
        self.scores: list[float] = []
        self.seconds = 0.0

    def index(self) -> None:
        """The documents; a side that comes later finds them."""
        job_id = self._app.index(IndexCall(root=str(self._docs)))["job_id"]
        while self._app.status(job_id, 20.0)["status"] not in ENDED:
            pass

    def ask(self, question: Question, *, count: bool = True) -> None:
        """nDCG@10 of one question, and what it took."""
        started = time.process_time()
        answer = self._app.search(SearchCall(question.query, question.depth, workspace=str(self._docs)))
        took = time.process_time() - started
        if note := [part for part in str(answer.get("note", "")).splitlines() if "Not reranked" in part]:
            raise SystemExit(note[0])
        files = [Path(hit["path"]).relative_to(self._docs).as_posix() for hit in answer["hits"]]
        measures = file_measures(files, question.gold_files, question.partial_files, question.exclude_files)
        if count:
            self.scores.append(measures["ndcg@10"])
            self.seconds += took

    def close(self) -> None:
        """End it."""
        self._app.close()


def measure(model: str, folder: Path, questions: list[Question]) -> None:
    """Print one set's line."""
    docs = (folder / "docs").resolve()
    with tempfile.TemporaryDirectory() as state:
        own = {"PATH": os.environ["PATH"], "HOME": state, "MARKDOWN_RAG_CACHE_DIR": state}
        own["MARKDOWN_RAG_SERVICE"] = "off"
        without, using = (Side(open_facade({**own, **more}, folder), docs) for more in ({}, {"RERANK_MODEL": model}))
        try:
            for side in (without, using):
                side.index()
                side.ask(questions[0], count=False)  # loads the models
            for question in questions:
                without.ask(question)
                using.ask(question)
        finally:
            using.close()
            without.close()
    paired = difference(using.scores, without.scores)
    print(
        f"{folder.resolve().name} ({paired.n}): without {estimate(without.scores).mean:.3f}, with "
        f"{estimate(using.scores).mean:.3f}, difference {paired.mean:+.4f} ({paired.error:.4f}), better "
        f"{paired.better}, worse {paired.worse}; processor seconds a question {without.seconds / paired.n:.3f} and "
        f"{using.seconds / paired.n:.3f}",
        flush=True,
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("sets", type=Path, nargs="+")
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--lang")
    options = parser.parse_args()
    print(machine(), flush=True)
    for folder in options.sets:
        asked = [
            question
            for question in read_questions(folder / "queries.jsonl")
            if options.lang in {None, question.groups.get("lang")}
        ]
        measure(options.model, folder, asked[: options.questions])


if __name__ == "__main__":
    main()
