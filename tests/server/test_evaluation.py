"""Scoring a folder of questions: the real app, and the table and page made of its scores."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from markdown_rag.app import App
from markdown_rag.errors import InputError, NotFound
from markdown_rag.evaluation import evaluate_folder, read_questions
from markdown_rag.evaluation.page import page
from markdown_rag.evaluation.table import table
from markdown_rag.facade import ListCall
from markdown_rag.settings import load_settings
from markdown_rag.wiring import Parts
from tests.doctor import folders_end_well

SETS = Path(__file__).parents[1] / "data" / "eval"


class Tags(HTMLParser):
    """The tags of a page, and whether each that opens is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_folder_of_questions_is_scored_against_each_way_of_searching_alone(app: App, tmp_path: Path) -> None:
    folder = tmp_path / "korean"
    shutil.copytree(SETS / "korean" / "docs", folder / "docs")
    lines = (SETS / "korean" / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "queries.jsonl").write_text("\n".join([*lines[:4], *lines[-2:]]), encoding="utf-8")
    scores = evaluate_folder(app, folder, lambda _: None)
    assert scores["questions"] == 6
    assert set(scores["modes"]) == {"hybrid", "lexical", "dense"}
    assert scores["modes"]["hybrid"]["hit@5"]["mean"] == 1.0
    assert set(scores["kind"]) == {"question", "multi-part"}
    assert json.loads(json.dumps(scores)) == scores
    text = table(scores)
    assert re.search(r"^hybrid +\d\.\d{3} \(\d\.\d{3}\)", text, re.MULTILINE)
    assert "against lexical alone" in text
    shown = page(scores)
    tags = Tags(shown)
    assert not tags.open
    assert tags.seen.count("rect") == 5
    assert not re.search(r"(src|href)=", shown)


@pytest.mark.parametrize("keep", [False, True])
def test_scoring_leaves_nothing_in_the_index_unless_asked_to_or_there_before(
    app: App, tmp_path: Path, keep: bool
) -> None:
    docs = tmp_path / "set" / "docs"
    docs.mkdir(parents=True)
    (docs / "tea.md").write_text("# Tea\n\nGreen tea is steeped at eighty degrees.\n", encoding="utf-8")
    question = {"query": "how hot is green tea steeped?", "gold_files": ["tea.md", "gone.md"]}
    (docs.parent / "queries.jsonl").write_text(json.dumps(question), encoding="utf-8")
    scores = evaluate_folder(app, docs.parent, lambda _: None, keep=keep)
    assert scores["missing_files"] == ["gone.md"]
    assert "Not in docs/, which counts as not found: 1 file to be found" in table(scores)
    if keep:
        assert app.list_documents(ListCall(workspace=str(docs)))["files"]
        evaluate_folder(app, docs.parent, lambda _: None)
        assert app.list_documents(ListCall(workspace=str(docs)))["files"], "it was there before"
    else:
        with pytest.raises(NotFound):
            app.list_documents(ListCall(workspace=str(docs)))


@pytest.mark.parametrize("line", ['{"query": "x"}', "no JSON", '{"gold_files": ["a"]}', "[]"])
def test_a_line_that_is_no_question_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "queries.jsonl").write_text(f'{{"query": "a", "gold_files": ["a.md"]}}\n{line}\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 2"):
        read_questions(tmp_path / "queries.jsonl")


def test_a_folder_without_questions_is_refused_with_what_it_should_hold(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"queries\.jsonl"):
        read_questions(tmp_path / "queries.jsonl")


@pytest.mark.parametrize("name", ["errors", "japanese", "korean"])
def test_every_question_of_our_own_sets_names_files_that_exist(name: str) -> None:
    for question in read_questions(SETS / name / "queries.jsonl"):
        assert question.gold_files
        assert all((SETS / name / "docs" / file).is_file() for file in question.gold_files)


def test_scores_of_answers_without_a_model_that_was_asked_for_say_so(
    request: pytest.FixtureRequest, state_dir: Path, vault: Path, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "tea.md").write_text("# Tea\n\nGreen tea is steeped at eighty degrees.\n", encoding="utf-8")
    (tmp_path / "docs" / "ice.md").write_text("# Ice\n\nIce tea is green too.\n", encoding="utf-8")
    question = {"query": "green tea", "gold_files": ["tea.md"]}
    (tmp_path / "queries.jsonl").write_text(f"{json.dumps(question)}\n" * 2, encoding="utf-8")
    settings = load_settings({"MARKDOWN_RAG_CACHE_DIR": str(state_dir), "RERANK_MODEL": str(tmp_path / "nowhere")})
    with contextlib.closing(Parts(settings)) as parts:
        app = App(parts, settings, vault)
        scores = evaluate_folder(app, tmp_path, lambda _: None, keep=True)
        folders_end_well(request.node, app, [tmp_path / "docs"])
    ((remark, count),) = scores["remarks"].items()
    assert count == 2
    assert "Not reranked" in remark
    assert f"2 of 2 answers: {remark}" in table(scores)
