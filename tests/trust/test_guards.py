"""A job that would take most of an index away stops, says what it would have taken, and goes on when asked to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from markdown_rag.app import App
from markdown_rag.errors import GuardError, WorkspaceError
from markdown_rag.facade import IndexCall, Json, SearchCall
from markdown_rag.indexing.delta import GUARD_FILES
from markdown_rag.markdown.chunking import ChunkPolicy
from markdown_rag.settings import load_settings
from markdown_rag.wiring import Parts
from tests.doctor import folders_end_well, known_folders

from .conftest import Machine
from .judge import holds_the_disk, is_settled

MANY = GUARD_FILES + 5


def test_a_root_that_is_away_or_empty_and_a_loss_of_most_files_delete_nothing(machine: Machine) -> None:
    bench = machine("one")
    for number in range(MANY):
        bench.note(f"{number}.md")
    bench.run()
    whole = bench.rows()
    workspace, away = bench.workspace, bench.root.with_name("away")
    bench.root.rename(away)
    with pytest.raises(WorkspaceError):
        bench.run()
    bench.root.mkdir()
    with pytest.raises(GuardError) as empty:
        bench.run()
    assert len(empty.value.paths) == MANY
    bench.note("only.md")
    with pytest.raises(GuardError) as most:
        bench.run()
    assert len(most.value.paths) == MANY
    assert bench.rows() == whole
    (bench.root / "only.md").unlink()
    bench.root.rmdir()
    away.rename(bench.root)
    assert bench.workspace == workspace
    is_settled(bench)
    for number in range(MANY):
        (bench.root / f"{number}.md").unlink()
    bench.note("only.md")
    assert bench.run(confirm_deletions=True).deleted == MANY
    is_settled(bench)


def test_other_chunk_settings_chunk_every_file_again(machine: Machine) -> None:
    bench = machine("one")
    bench.write("a.md", "# Top\n\n" + "".join(f"## Part {i}\n\n" + "and so on " * 100 + "\n\n" for i in range(4)))
    bench.run()
    bench.chunking = ChunkPolicy(max_tokens=150)
    assert bench.run().modified == 1
    holds_the_disk(bench)
    assert {entry.policy for entry in bench.store.catalog(bench.everything)} == {bench.chunking.fingerprint}


@pytest.fixture
def app(state_dir: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    settings = load_settings({"MARKDOWN_RAG_CACHE_DIR": str(state_dir)})
    parts = Parts(settings)
    made = App(parts, settings, tmp_path)
    yield made
    with closing(parts):
        folders_end_well(request.node, made, known_folders(parts))


def test_the_job_fails_with_the_list_and_goes_on_with_confirm_deletions(app: App, tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    for number in range(MANY):
        (vault / f"{number}.md").write_text(f"Note {number}.")

    def indexed(**how: bool) -> Json:
        return app.status(app.index(IndexCall(root=str(vault), **how))["job_id"], 60.0)

    assert indexed()["status"] == "succeeded"
    for number in range(MANY - 2):
        (vault / f"{number}.md").unlink()
    refused = indexed()
    assert refused["status"] == "failed"
    assert f"{MANY - 2} of {MANY} indexed files are gone" in refused["error"]
    assert "0.md" in refused["error"]
    assert "confirm_deletions" in refused["error"]
    assert app.search(SearchCall("Note 3", workspace="all"))["files"] == MANY
    told = indexed(confirm_deletions=True)
    assert (told["status"], told["result"]["pruned_files"]) == ("succeeded", MANY - 2)
    assert app.search(SearchCall("Note 3", workspace="all"))["files"] == 2
