"""What a walk sees, names and leaves out; nothing outside the workspace, and no error that looks like an absence."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from markdown_rag.clock import StopSignal
from markdown_rag.errors import Cancelled, WorkspaceError
from markdown_rag.indexing.ignore import ScanPolicy
from markdown_rag.indexing.scan import ScanResult, canonical, scan
from markdown_rag.paths import Scope, workspace_for

from .parts import as_nobody


class Vault:
    """A folder to walk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def file(self, path: str, text: str = "words") -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def link(self, path: str, target: str | Path) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, self.root / path)

    def scan(self, path: str = "", *, recursive: bool = True, policy: ScanPolicy | None = None) -> ScanResult:
        scope = Scope(workspace_for(self.root), path, recursive)
        return scan(scope, policy or ScanPolicy(), StopSignal())

    def reasons(self) -> dict[str, str]:
        return {problem.path: f"{problem.kind.value}: {problem.reason}" for problem in self.scan().problems}


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "vault")


def test_markdown_files_of_all_folders_are_seen_in_path_order(vault: Vault) -> None:
    for path in ("b.md", "a/z.MDX", "a.markdown", "a/b/c.MD", "a/note.txt", "picture.png"):
        vault.file(path)
    assert list(vault.scan().files) == ["a.markdown", "a/b/c.MD", "a/z.MDX", "b.md"]


def test_a_scope_is_walked_alone(vault: Vault) -> None:
    for path in ("a_b/x.md", "aXb/x.md", "a_b2/x.md", "a_b/deep/y.md"):
        vault.file(path)
    assert list(vault.scan("a_b").files) == ["a_b/deep/y.md", "a_b/x.md"]
    assert list(vault.scan("a_b", recursive=False).files) == ["a_b/x.md"]
    assert list(vault.scan("a_b/x.md").files) == ["a_b/x.md"]
    assert list(vault.scan("gone").files) == []


def test_what_is_left_out_is_counted_by_rule(vault: Vault) -> None:
    for path in (
        "node_modules/a.md",
        "x/node_modules/b.md",
        ".obsidian/c.md",
        ".trash/d.md",
        "AGENTS.md",
        "x/AGENTS.md",
    ):
        vault.file(path)
    vault.file("kept.md")
    result = vault.scan()
    assert list(result.files) == ["kept.md"]
    assert result.left_out == {"folder node_modules": 2, "dot folders": 2, "file AGENTS.md": 2}
    assert result.problems == ()


def test_gitignore_files_hold_below_them_and_are_named(vault: Vault) -> None:
    vault.file(".gitignore", "*.draft.md\nprivate/\n")
    vault.file("docs/.gitignore", "!keep.draft.md\n/local.md\n")
    for path in ("a.draft.md", "private/b.md", "docs/keep.draft.md", "docs/local.md", "docs/x/local.md"):
        vault.file(path)
    result = vault.scan()
    assert list(result.files) == ["docs/keep.draft.md", "docs/x/local.md"]
    assert result.left_out == {".gitignore": 2, "docs/.gitignore": 1}


def test_gitignore_can_be_turned_off(vault: Vault) -> None:
    vault.file(".gitignore", "*\n")
    vault.file("a.md")
    assert list(vault.scan(policy=ScanPolicy(gitignore=False)).files) == ["a.md"]


def test_rules_above_a_scope_hold_in_it(vault: Vault) -> None:
    vault.file(".gitignore", "*.draft.md\n")
    vault.file("docs/a.draft.md")
    vault.file("docs/a.md")
    assert list(vault.scan("docs").files) == ["docs/a.md"]


@pytest.mark.parametrize("scope", ["build", "build/deep", "build/deep/a.md"])
def test_a_scope_inside_something_left_out_says_so(vault: Vault, scope: str) -> None:
    vault.file("build/deep/a.md")
    result = vault.scan(scope)
    assert result.files == {}
    assert [(p.path, p.kind.value, p.reason) for p in result.problems] == [
        (scope, "left_out", "left out by the rule: folder build")
    ]


def test_links_are_named_and_never_followed(vault: Vault, tmp_path: Path) -> None:
    outside = Vault(tmp_path / "outside")
    outside.file("secret.md")
    vault.file("target.md")
    vault.file("folder/inside.md")
    vault.link("alias.md", "target.md")
    vault.link("folder2", "folder")
    vault.link("out.md", outside.root / "secret.md")
    vault.link("outdir", outside.root)
    vault.link("broken.md", "nowhere.md")
    vault.link("loop.md", "loop.md")
    vault.link("folder/up", "..")
    vault.link("image.png", "target.md")
    assert list(vault.scan().files) == ["folder/inside.md", "target.md"]
    assert vault.reasons() == {
        "alias.md": "link: link inside the workspace, the same as target.md",
        "folder2": "link: link inside the workspace, the same as folder",
        "out.md": "link: link to a place outside the workspace",
        "outdir": "link: link to a place outside the workspace",
        "broken.md": "link: broken link (no such file or directory)",
        "loop.md": "link: link loop",
        "folder/up": "link: link loop: it leads to a folder it lies in",
    }


def test_a_neighbour_whose_name_begins_alike_is_outside(vault: Vault, tmp_path: Path) -> None:
    Vault(tmp_path / "vault2").file("a.md")
    vault.link("alias.md", tmp_path / "vault2" / "a.md")
    assert vault.reasons() == {"alias.md": "link: link to a place outside the workspace"}


def test_a_scope_that_is_a_link_inside_leads_to_what_it_names(vault: Vault) -> None:
    vault.file("folder/a.md")
    vault.link("alias", "folder")
    workspace = workspace_for(vault.root)
    assert canonical(Scope(workspace, "alias")) == Scope(workspace, "folder")
    assert canonical(Scope(workspace, "")) == Scope(workspace, "")


def test_a_scope_that_leads_out_is_refused(vault: Vault, tmp_path: Path) -> None:
    vault.link("out", tmp_path)
    with pytest.raises(WorkspaceError, match="leads out of the workspace"):
        canonical(Scope(workspace_for(vault.root), "out"))


def test_things_that_only_look_like_notes_are_named(vault: Vault) -> None:
    vault.file("folder.md/inside.md")
    os.mkfifo(vault.root / "pipe.md")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(vault.root)  # a socket's path is short
        try:
            listener.bind("socket.md")
        finally:
            os.chdir(here)
        assert list(vault.scan().files) == ["folder.md/inside.md"]
        assert vault.reasons() == {
            "folder.md": "not_regular: not a regular file (a folder)",
            "pipe.md": "not_regular: not a regular file (FIFO)",
            "socket.md": "not_regular: not a regular file (socket)",
        }


def test_a_pipe_called_gitignore_does_not_block(vault: Vault) -> None:
    os.mkfifo(vault.root / ".gitignore")
    vault.file("a.md")
    assert list(vault.scan().files) == ["a.md"]


def test_names_that_are_not_utf8_are_named_in_readable_form(vault: Vault) -> None:
    name = os.fsdecode(b"latin-\xe9.md")
    (vault.root / name).write_text("words")
    assert vault.scan().files == {}
    assert vault.reasons() == {"latin-\\xe9.md": "name: the name is not UTF-8"}


def test_names_differing_in_case_or_unicode_form_stay_apart(vault: Vault) -> None:
    names = ["Case.md", "case.md", "caf\u00e9.md", "cafe\u0301.md"]
    for name in names:
        vault.file(name)
    assert sorted(vault.scan().files) == sorted(names)


def test_an_unreadable_folder_protects_what_lies_under_it(vault: Vault) -> None:
    vault.file("locked/a.md")
    vault.file("open/a.md")
    (vault.root / "locked").chmod(0)
    with as_nobody(vault.root):
        result = vault.scan()
    (vault.root / "locked").chmod(0o755)
    assert list(result.files) == ["open/a.md"]
    assert result.unreadable == {"locked"}
    assert result.protects("locked/a.md")
    assert not result.protects("locked2/a.md")
    assert [(p.path, p.reason) for p in result.problems] == [("locked", "permission denied")]


def test_a_path_too_long_for_the_system_is_unreadable_not_absent(vault: Vault) -> None:
    name, here = "d" * 250, os.getcwd()
    os.chdir(vault.root)
    try:
        for _ in range(17):
            os.mkdir(name)
            os.chdir(name)
    finally:
        os.chdir(here)
    result = vault.scan()
    assert [problem.reason for problem in result.problems] == ["file name too long"]
    assert result.protects("/".join([name] * 17) + "/a.md")


def test_a_root_that_is_gone_is_an_error_that_says_nothing_changed(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match=r"cannot be read: no such file.*Nothing was changed"):
        Vault.scan(_gone(tmp_path))


def _gone(tmp_path: Path) -> Vault:
    vault = Vault(tmp_path / "gone")
    vault.root.rmdir()
    return vault


def test_an_empty_root_is_told_apart_from_one_without_notes(vault: Vault) -> None:
    assert vault.scan().root_is_empty
    vault.file("picture.png")
    assert not vault.scan().root_is_empty


def test_a_walk_stops_when_asked(vault: Vault) -> None:
    vault.file("a.md")
    stop = StopSignal()
    stop.stop()
    with pytest.raises(Cancelled):
        scan(Scope(workspace_for(vault.root)), ScanPolicy(), stop)


def test_a_walk_stops_in_the_middle_of_a_large_folder(vault: Vault) -> None:
    for number in range(1_000):
        vault.file(f"large/{number}.md", "")

    class Soon(StopSignal):
        """Somebody asks for a stop while the second folder is looked at."""

        checks = 0

        def check(self) -> None:
            self.checks += 1
            if self.checks > 5:
                self.stop()
            super().check()

    with pytest.raises(Cancelled):
        scan(Scope(workspace_for(vault.root)), ScanPolicy(), Soon())
