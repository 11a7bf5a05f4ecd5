"""How well a folder's questions are answered: ``docs/`` is indexed, ``queries.jsonl`` is asked, the answers are scored.

Everything goes through the façade, as an agent's questions do: the real store, the real model. The same questions are
also asked of keywords alone and of vectors alone, so that a loss against either is seen question by question.
Questions: one JSON object a line with ``query`` and ``gold_files``, and where known ``id``, ``lang``, ``kind``,
``partial_files``, ``exclude_files`` and ``gold_spans`` (file, start, end in characters).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from markdown_rag.errors import InputError, JobError, NotFound
from markdown_rag.facade import Facade, IndexCall, Json, ListCall, SearchCall, job_of
from markdown_rag.search.scoring import Difference, Range, difference, file_measures, passage_measures, summary

MODES = ("hybrid", "lexical", "dense")
DEPTH = 10  # files that count in the measures
PASSAGES = 5  # passages that count in theirs
GROUPS = ("lang", "kind")
_SHAPE = "Each line is an object with query, and in gold_files the documents that answer it, as paths below docs/."


@dataclass(frozen=True, slots=True)
class Question:
    """One line of ``queries.jsonl``. gold_spans: character ranges by file."""

    id: str
    query: str
    gold_files: tuple[str, ...]
    partial_files: tuple[str, ...]
    exclude_files: tuple[str, ...]
    gold_spans: Mapping[str, tuple[Range, ...]]
    groups: Mapping[str, str]

    @property
    def depth(self) -> int:
        """How many files to ask for, so that enough are left when the excluded ones are dropped."""
        return min(50, DEPTH + len(self.exclude_files))


def read_questions(path: Path) -> list[Question]:
    """The questions of a file; InputError names the line that is not one."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}.", "Give a folder with docs/ and queries.jsonl."
        ) from error
    return [_question(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]


def _question(line: str, where: str) -> Question:
    try:
        row = dict(json.loads(line))
        spans: dict[str, list[Range]] = {}
        for span in row.get("gold_spans") or ():
            spans.setdefault(span["file"], []).append((int(span["start"]), int(span["end"])))
        return Question(
            id=str(row.get("id", where)),
            query=str(row["query"]),
            gold_files=tuple(row["gold_files"]),
            partial_files=tuple(row.get("partial_files") or ()),
            exclude_files=tuple(row.get("exclude_files") or ()),
            gold_spans={file: tuple(ranges) for file, ranges in spans.items()},
            groups={name: str(row[name]) for name in GROUPS if row.get(name)},
        )
    except KeyError as error:
        raise InputError(f"{where} has no {error.args[0]}.", _SHAPE) from error
    except (ValueError, TypeError) as error:
        raise InputError(f"{where} is not a question: {error}.", _SHAPE) from error


def evaluate_folder(app: Facade, folder: Path, show: Callable[[Json], None], *, keep: bool = False) -> Json:
    """Index ``folder/docs``, ask every question in every mode, score. show: called with the index job's progress.

    keep: leave the documents in the index; else they go again, unless they were there before. Their vectors stay in the
    cache. Raises InputError for a folder that is not one, JobError when indexing fails.
    """
    docs = (folder / "docs").resolve()
    questions = read_questions(folder / "queries.jsonl")
    keep = keep or _is_indexed(app, docs)
    try:
        _index(app, docs, show)
        remarks: Counter[str] = Counter()
        rows = {mode: [_ask(app, docs, question, mode, remarks) for question in questions] for mode in MODES}
    finally:
        if not keep and _is_indexed(app, docs):
            app.clear(str(docs), confirm=True)
    scores = _scores(folder.resolve().name, questions, rows)
    return {**scores, "missing_files": _missing(docs, questions), "remarks": dict(remarks.most_common())}


def _is_indexed(app: Facade, docs: Path) -> bool:
    try:
        app.list_documents(ListCall(workspace=str(docs), limit=1))
    except NotFound:
        return False
    return True


def _missing(docs: Path, questions: Sequence[Question]) -> list[str]:
    """Files that are to be found and are not there."""
    wanted = {file for question in questions for file in question.gold_files}
    return sorted(file for file in wanted if not (docs / file).is_file())


def _index(app: Facade, docs: Path, show: Callable[[Json], None]) -> None:
    job_id = job_of(app.index(IndexCall(root=str(docs))))
    status: Json = {"status": "queued"}
    while status["status"] in {"queued", "running"}:
        status = app.status(job_id, 20.0, show)
    if status["status"] != "succeeded":
        raise JobError(f"Indexing {docs} ended as {status['status']}: {status.get('error') or status.get('note')}.")


def _ask(app: Facade, docs: Path, question: Question, mode: str, remarks: Counter[str]) -> dict[str, float]:
    """All measures of one question. remarks counts what answers say of themselves, such as that a model is down."""

    def ranked(k: int, *, every_passage: bool) -> Sequence[Json]:
        call = SearchCall(question.query, k, workspace=str(docs), explain=True, mode=mode, every_passage=every_passage)
        answer = app.search(call)
        if mode == MODES[0] and not every_passage:
            remarks.update(str(answer[each]) for each in ("degraded", "note") if answer.get(each))
        hits: Sequence[Json] = answer["hits"]
        return hits

    files = [_relative(hit, docs) for hit in ranked(question.depth, every_passage=False)]
    measures = file_measures(files, question.gold_files, question.partial_files, question.exclude_files)
    if question.gold_spans:
        passages = [(_relative(hit, docs), _characters(docs, hit)) for hit in ranked(PASSAGES, every_passage=True)]
        measures |= passage_measures(passages, question.gold_spans)
    return measures


def _relative(hit: Json, docs: Path) -> str:
    return Path(hit["path"]).relative_to(docs).as_posix()


def _characters(docs: Path, hit: Json) -> Range:
    """A hit's byte range as a range of characters of the file's text."""
    start, end = hit["bytes"]
    data = _file(docs / _relative(hit, docs))
    before = len(data[:start].decode("utf-8", "replace"))
    return before, before + len(data[start:end].decode("utf-8", "replace"))


@lru_cache(maxsize=64)
def _file(path: Path) -> bytes:
    return path.read_bytes()


def _scores(name: str, questions: Sequence[Question], rows: Mapping[str, Sequence[Mapping[str, float]]]) -> Json:
    found: Json = {
        "set": name,
        "questions": len(questions),
        "modes": {mode: _means(of) for mode, of in rows.items()},
        "against": {other: _against(rows, other) for other in MODES[1:]},
    }
    for group in GROUPS:
        values = sorted({question.groups[group] for question in questions if group in question.groups})
        if len(values) > 1:
            found[group] = {value: _means(_of_group(questions, rows["hybrid"], group, value)) for value in values}
    return found


def _of_group(
    questions: Sequence[Question], rows: Sequence[Mapping[str, float]], group: str, value: str
) -> list[Mapping[str, float]]:
    return [row for question, row in zip(questions, rows, strict=True) if question.groups.get(group) == value]


def _means(rows: Sequence[Mapping[str, float]]) -> Json:
    return {name: {"mean": e.mean, "error": e.error, "n": e.n} for name, e in summary(rows).items()}


def _against(rows: Mapping[str, Sequence[Mapping[str, float]]], other: str) -> Json:
    """The paired difference in nDCG@10 between the whole recipe and one leg alone."""
    paired: Difference = difference([row["ndcg@10"] for row in rows["hybrid"]], [row["ndcg@10"] for row in rows[other]])
    return {**asdict(paired), "worse_beyond_chance": paired.worse_beyond_chance}
