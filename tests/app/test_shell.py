"""What the shell does when a job is refused, joined or interrupted, and when nobody reads what it prints."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from markdown_rag import cli
from markdown_rag.answers import not_indexed
from markdown_rag.app import App
from markdown_rag.errors import FastRagError, JobError
from markdown_rag.evaluation import evaluate_folder
from markdown_rag.facade import IndexCall, Json, ReadCall
from markdown_rag.jobs.job import IndexRequest
from markdown_rag.paths import Scope, Workspace, workspace_for
from markdown_rag.shellwords import in_shell_words
from markdown_rag.wiring import Parts
from markdown_rag.workspaces import overlap_warning

from .conftest import HoldingStore, indexed, write


class Interrupted(App):
    """An app whose user presses Ctrl-C while a job is followed."""

    def status(self, *_: object, **__: object) -> Json:
        raise KeyboardInterrupt


@pytest.fixture
def busy(agent: Callable[..., App], store: HoldingStore, vault: Path) -> None:
    """A job runs until the store lets it go on."""
    write(vault, "a")
    store.go_on.clear()
    agent().index(IndexCall())
    assert store.reached.wait(60.0)


def index(app: App) -> int:
    return cli.index(app, cli._parser().parse_args(["index", "--json"]))


@pytest.mark.usefixtures("busy")
def test_a_request_that_is_refused_is_an_error_and_not_the_job_of_somebody_else(
    agent: Callable[..., App], parts: Parts, tmp_path: Path
) -> None:
    number = 0
    while parts.queue.submit(IndexRequest(Scope(Workspace(f"w{number}", tmp_path)))).accepted:
        number += 1
    with pytest.raises(JobError, match="Wait until one has ended"):
        index(agent())
    (tmp_path / "set" / "docs").mkdir(parents=True)
    (tmp_path / "set" / "queries.jsonl").write_text(json.dumps({"query": "q", "gold_files": ["a.md"]}))
    with pytest.raises(JobError, match="Wait until one has ended"):
        evaluate_folder(agent(), tmp_path / "set", print)
    for job in parts.queue.active():
        parts.queue.cancel(job.id)


@pytest.mark.usefixtures("busy")
def test_an_interrupt_stops_the_job_that_was_asked_for_but_none_that_was_joined(
    agent: Callable[..., App], store: HoldingStore
) -> None:
    waiting = agent().index(IndexCall())["job_id"]
    with pytest.raises(KeyboardInterrupt):
        index(agent(Interrupted))
    store.go_on.set()
    assert agent().status(waiting, 60.0)["status"] == "succeeded"
    store.reached.clear()
    store.go_on.clear()
    with pytest.raises(KeyboardInterrupt):
        index(agent(Interrupted))
    assert agent().status()["cancel_requested"]


class LostAnswer(Interrupted):
    """An app whose answer to a request is lost, so that it is asked once more, and whose user then presses Ctrl-C."""

    def index(self, call: IndexCall) -> Json:
        again = replace(call, request_id="the same")
        super().index(again)
        return super().index(again)


@pytest.mark.usefixtures("busy")
def test_an_interrupt_stops_the_own_job_also_where_its_request_had_to_be_repeated(
    agent: Callable[..., App], parts: Parts, store: HoldingStore
) -> None:
    with pytest.raises(KeyboardInterrupt):
        index(agent(LostAnswer))
    (running,) = parts.queue.active()  # the own one waited, and is cancelled
    assert not running.cancel
    store.go_on.set()


def test_a_state_file_that_fails_costs_no_index_job(agent: Callable[..., App], state_dir: Path, vault: Path) -> None:
    (state_dir / "workspaces.sqlite3").mkdir()
    write(vault, "a")
    assert indexed(agent())["result"]["insert_count"] == 1
    (state_dir / "workspaces.sqlite3").rmdir()


@pytest.mark.parametrize("asked", ["status", "cancel"])  # the one is answered, the other is an error
def test_a_reader_that_goes_away_gets_no_traceback(asked: str) -> None:
    command = [sys.executable, "-c", "from markdown_rag.server.guard import main; main()", asked, "--json"]
    shell = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert shell.stdout
    assert shell.stderr
    shell.stdout.close()
    errors = shell.stderr.read()
    shell.stderr.close()
    assert (shell.wait(60.0), errors) == (cli.UNREAD, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    ("output", "code", "said"),
    [
        (">/dev/full", 1, "Error: the output cannot be written: No space left on device.\n"),
        ("--workspace nowhere --json >/dev/full", 1, "Error: the output cannot be written: No space left on device.\n"),
        (">&-", 1, ""),
        ("2>&-", 1, ""),
    ],
)
def test_output_that_cannot_be_written_is_said_in_words(
    state_dir: Path, tmp_path: Path, output: str, code: int, said: str
) -> None:
    program = "from markdown_rag.server.guard import main; main()"
    ended = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" search tea {output}', sys.executable, program],
        env={**os.environ, "MARKDOWN_RAG_CACHE_DIR": str(state_dir), "MARKDOWN_RAG_SERVICE": "off"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60.0,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (code, said)


@pytest.fixture
def shell(agent: Callable[..., App], capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """A command line over an app: exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        options = cli._parser().parse_args(arguments)
        try:
            code = options.run(agent(), options)
        except FastRagError as error:
            code = cli.told(error)
        return code, *capsys.readouterr()

    return run


Shell = Callable[..., tuple[int, str, str]]


def test_nothing_found_is_1_and_wrong_usage_is_2(
    agent: Callable[..., App], shell: Shell, vault: Path, tmp_path: Path
) -> None:
    write(vault, "a")
    indexed(agent())
    for line in (
        "read nope", "read a --heading nope", "read ../x.md", "read 0123456789ab-0-01234567", "list nope", "list /etc",
        "links nope", "search words --scope nope", "search words --workspace nope", "status zzz", "cancel zzz",
        "clear --workspace nope",
    ):  # fmt: skip
        assert shell(*line.split())[0] == cli.FAILED, line
    for line in (
        f"index {vault}/a.md", "index ~", "index /", f"index {tmp_path}/none", f"doctor {vault}/a.md",
        "search words -k 0", "search words --max-tokens -1", "list --max-tokens -1", "read a --lines b",
        "search words --property date>soon",
    ):  # fmt: skip
        assert shell(*line.split())[0] == cli.USAGE, line
    for line in ("read a", "list", "search words", "status", "clear"):
        assert shell(*line.split())[0] == cli.DONE, line


def test_the_shell_names_its_own_commands_and_options(agent: Callable[..., App], shell: Shell, vault: Path) -> None:
    write(vault, "a", words="long " * 400)
    indexed(agent())
    tool_words = re.compile(
        r"\b[a-z]+_(?:documents?|index|index_status|path|tokens|deletions|working_directory)\b|confirm=|workspace="
    )
    for line, said in (
        ("clear", "Pass --yes to do it"),
        ("clear --workspace nope", "`index` adds another"),
        ("clear --workspace all", "`clear` removes one workspace"),
        (f"index {vault}/a.md", "Give its folder as PATH, and --directory a.md for this file alone."),
        (f"index {vault} --directory ../..", "outside the workspace"),
        ("list nope", "Leave path empty"),
        ("read nope", "`list` shows what is indexed"),
        ("read a --max-tokens 60", "`read disk-"),
        ("search words --scope /etc", "--scope must be under"),
        ("search words --property rank>soon", "--property: 'rank>soon' compares with neither"),
        ("search words --max-tokens 3", "--max-tokens 3 was taken as 200"),
    ):
        _, out, err = shell(*line.split())
        assert said in out + err, line
        assert not tool_words.search((out + err).replace(str(vault), "")), line


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ('Or widen it with workspace="all".', "Or widen it with --workspace all."),
        (
            "call index_documents, or search again with wait_for_fresh=true.",
            "call `index`, or search again with --wait-for-fresh.",
        ),
        ("is not seen: index_documents, or wait_for_fresh=true.", "is not seen: `index`, or --wait-for-fresh."),
        ("Pass workspace= one of these.", "Pass --workspace one of these."),
        ("Pass after='a b.md' for the next page.", "Pass --after 'a b.md' for the next page."),
        ("Index again with confirm_deletions.", "Index again with --confirm-deletions."),
        ("clear_index(workspace=/a b) removes it.", "`clear --workspace '/a b'` removes it."),
        (
            "No indexed file lies in scope 'docs/index_documents'.",
            "No indexed file lies in scope 'docs/index_documents'.",
        ),
        ("/x/scope_path.md is a file, not a folder.", "/x/scope_path.md is a file, not a folder."),
        ("MARKDOWN_WORKSPACE=/x is set.", "MARKDOWN_WORKSPACE=/x is set."),
    ],
)
def test_a_message_is_translated_and_a_path_in_it_is_not(said: str, meant: str) -> None:
    assert in_shell_words(said) == meant


@pytest.mark.parametrize("name", ["a b", "a (x)", "(x) b", "a). b", "it's", "'a'", ")"])
def test_a_command_that_is_suggested_names_the_folder_whatever_it_is_called(name: str, tmp_path: Path) -> None:
    outer = workspace_for(tmp_path / name)
    inner = workspace_for(outer.root / "(in)" / name)
    one, two = shlex.quote(str(outer.root)), shlex.quote(str(inner.root))
    assert f"`index {one}` does that." in in_shell_words(not_indexed(str(outer.root), ok=True)["message"])
    both = in_shell_words(overlap_warning(inner, [outer, inner, workspace_for(inner.root / "most")]))
    assert f"call `index {one} --directory {shlex.quote(f'(in)/{name}')}` instead, and" in both
    assert f"remove this one with `clear --workspace {two}`. Inside" in both
    assert f"`clear --workspace {shlex.quote(str(inner.root / 'most'))}` removes one" in both
    assert in_shell_words(overlap_warning(inner, [outer])).endswith(f"with `clear --workspace {two}`.")


def test_what_was_cut_is_read_on_as_the_shell_says(agent: Callable[..., App], shell: Shell, vault: Path) -> None:
    write(vault, "a", words="long " * 400)
    indexed(agent())
    _, first, err = shell("read", "a", "--max-tokens", "60")
    found = re.search(r"`read (\S+)`", err)
    assert found
    _, rest, _ = shell("read", found[1])
    assert first.rstrip("\n") + rest.rstrip("\n") == (vault / "a.md").read_text().rstrip("\n")


def test_a_reconstructed_text_comes_with_its_bytes_and_sha256_on_standard_error(
    agent: Callable[..., App], shell: Shell, vault: Path
) -> None:
    write(vault, "a")
    indexed(agent())
    _, out, err = shell("read", "a", "--reconstruct")
    data = (vault / "a.md").read_bytes()
    assert out == data.decode()
    assert f"Bytes 0-{len(data)}, sha256 {hashlib.sha256(data).hexdigest()}, exact." in err


@pytest.mark.parametrize(
    "data",
    [
        b"# A\r\n\r\nWritten on Windows.\r\n",
        b"# A\n\nNo line end at the end.",
        b"\xef\xbb\xbf# A\n\nBehind a mark.\n\n\n",
        "# A\n\n\x1b[31mred\x1b[0m, \u202eturned\u202c and\x0crung\x08.\n".encode(),
        "# A\n\nZoë paid five €, naïvely, for the crème brûlée.\n".encode("cp1252"),
        "# A\n\nTwo bytes each.\n".encode("utf-16"),
    ],
)
def test_a_reconstructed_file_sent_to_a_file_is_that_file(
    agent: Callable[..., App], vault: Path, capfdbinary: pytest.CaptureFixture[bytes], data: bytes
) -> None:
    (vault / "a.md").write_bytes(data)
    indexed(agent())
    options = cli._parser().parse_args(["read", "a", "--reconstruct"])
    assert options.run(agent(), options) == cli.DONE
    out, err = capfdbinary.readouterr()
    assert out == data
    assert f"Bytes 0-{len(data)}, sha256 {hashlib.sha256(data).hexdigest()}, exact.".encode() in err


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_a_reconstructed_file_that_is_longer_than_an_answer_is_whole(
    agent: Callable[..., App], vault: Path, capfdbinary: pytest.CaptureFixture[bytes], encoding: str
) -> None:
    text = "# A\r\n\r\n" + "".join(f"Zoë paid {n} crowns for the crème brûlée, naïvely.\r\n" for n in range(300))
    data = text.encode(encoding)
    (vault / "a.md").write_bytes(data)
    indexed(agent())
    options = cli._parser().parse_args(["read", "a", "--reconstruct", "--max-tokens", "500"])
    assert options.run(agent(), options) == cli.DONE
    out, err = capfdbinary.readouterr()
    assert out == data
    assert (
        f"lines 1-302, fresh. Bytes 0-{len(data)}, sha256 {hashlib.sha256(data).hexdigest()}, exact.\n".encode() in err
    )


class Edited(App):
    """An app whose user writes to the document while it is read."""

    def read(self, call: ReadCall) -> Json:
        found = super().read(call)
        with (self._cwd / "a.md").open("a") as file:
            file.write("One more line.\n")
        return found


@pytest.mark.ends_with("stale")
def test_a_file_that_changes_while_it_is_reconstructed_is_an_error_and_not_half_of_it(
    agent: Callable[..., App], vault: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(vault, "a", words="long " * 400)
    indexed(agent())
    options = cli._parser().parse_args(["read", "a", "--reconstruct", "--max-tokens", "60"])
    with pytest.raises(FastRagError, match="changed while it was read") as told:
        options.run(agent(Edited), options)
    assert cli.told(told.value) == cli.FAILED
    assert capsys.readouterr().out == ""


def test_a_reconstruction_that_cannot_be_exact_fails(agent: Callable[..., App], shell: Shell, vault: Path) -> None:
    (vault / "a.md").write_bytes(b"# A\n\nMostly text, and \xff\xfe\xfa damaged in one place of it, no more.\n")
    indexed(agent())
    code, out, err = shell("read", "a", "--reconstruct")
    assert code == cli.FAILED
    assert "damaged in one place" in out
    assert "not exact" in err


def test_a_reconstruction_on_a_terminal_is_safe_and_called_shown(
    agent: Callable[..., App], vault: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(vault, "a", words="\x1b[31mred")
    indexed(agent())
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        options = cli._parser().parse_args(["read", "a", "--reconstruct"])
        assert options.run(agent(), options) == cli.DONE
        shown = screen.read(10_000).decode()
    assert "�[31mred" in shown
    assert "shown, not exact" in capsys.readouterr().err


def test_a_list_is_as_long_as_its_limit_asks_unless_tokens_are_bounded(
    agent: Callable[..., App], shell: Shell, vault: Path
) -> None:
    write(vault, *(f"a-note-with-a-rather-long-name-{number:03}" for number in range(120)))
    indexed(agent())
    rows = [out.count(" | 1 chunk") for _, out, _ in (shell("list", "--limit", n) for n in ("500", "110"))]
    assert rows == [120, 110]
    assert shell("list", "--limit", "500", "--max-tokens", "900")[1].count(" chunks") < 60


def test_a_preview_foresees_that_the_run_would_stop_before_so_many_deletions_and_says_how_to_confirm(
    agent: Callable[..., App], shell: Shell, vault: Path
) -> None:
    write(vault, *(f"n{number}" for number in range(60)))
    indexed(agent())
    for number in range(44):
        (vault / f"n{number}.md").unlink()
    code, out, err = shell("index", "--dry-run")
    assert code == cli.FAILED
    assert "44  deleted files" in out
    assert "would stop" in err
    assert "44 of 60 indexed files are gone" in err
    assert "--confirm-deletions" in err
    code, out, err = shell("index", "--dry-run", "--confirm-deletions")
    assert (code, err) == (cli.DONE, "")
    assert "44  deleted files" in out
    assert shell("index", "--confirm-deletions")[0] == cli.DONE


def test_doctor_says_in_one_line_that_a_folder_is_not_indexed_and_how_to_index_it(
    shell: Shell, parts: Parts, vault: Path
) -> None:
    write(vault, "a", "b", "c")
    for line, wanted in (("doctor", cli.DONE), (f"doctor {vault}", cli.FAILED)):
        code, out, _ = shell(*line.split())
        assert out.splitlines()[-1] == f"{vault} is not indexed yet: `index {vault}` does that."
        assert "missing" not in out
        assert code == wanted, out
    assert parts.queue.status() is None


def test_doctor_names_variables_that_are_nearly_ours_and_never_their_values(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("EMBEDING_PROVIDER", "MARKDOWN_WORKSPCE", "milvus_token", "GEMINI_API_KEYS", "EMBEDDING_THREADS"):
        monkeypatch.setenv(name, "1sesame")
    code, out, _ = shell("doctor")
    assert code == cli.DONE
    named = re.findall(r"^info the variable (\S+) is set and nobody reads it; is (\S+) meant\?$", out, re.MULTILINE)
    assert named == [
        ("EMBEDING_PROVIDER", "EMBEDDING_PROVIDER"),
        ("GEMINI_API_KEYS", "GEMINI_API_KEY"),
        ("MARKDOWN_WORKSPCE", "MARKDOWN_WORKSPACE"),
        ("milvus_token", "MILVUS_TOKEN"),
    ]
    assert "sesame" not in out
    assert json.loads(shell("doctor", "--json")[1])["unread_variables"][0]["name"] == "EMBEDING_PROVIDER"


def test_a_file_that_is_left_out_is_said_to_be_and_why(agent: Callable[..., App], shell: Shell, vault: Path) -> None:
    write(vault, "a")
    (vault / "empty.md").write_text("")
    (vault / "node_modules" / "pkg").mkdir(parents=True)
    write(vault / "node_modules" / "pkg", "README")
    (vault / ".gitignore").write_text("secret.md\n")
    write(vault, "secret")
    indexed(agent())
    for path, why in (
        ("empty.md", "empty"),
        ("node_modules/pkg/README.md", "node_modules"),
        ("secret.md", "gitignore"),
    ):
        code, _, err = shell("read", path)
        assert code == cli.FAILED
        assert f"{path} is there and left out of the index: " in err
        assert why in err.partition("left out of the index: ")[2], err


def test_no_cache_without_force_is_refused_instead_of_ignored(shell: Shell, parts: Parts, vault: Path) -> None:
    write(vault, "a")
    code, _, err = shell("index", "--no-cache")
    assert code == cli.USAGE
    assert "Give both" in err
    assert parts.queue.status() is None


def test_a_line_beyond_the_end_is_answered_with_the_lines_there_are(
    agent: Callable[..., App], shell: Shell, vault: Path
) -> None:
    write(vault, "a")
    indexed(agent())
    assert (
        "The document has 3 lines, so there is no line 99. Lines 1-3 are there."
        in shell("read", "a", "--lines", "99")[2]
    )


@pytest.mark.parametrize("given", ["read nope", "search words --scope /etc", "index /nope"])
def test_with_json_an_error_is_json_too(given: str, state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert state_dir
    assert cli.run([*given.split(), "--json"]) != cli.DONE
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert f"Error: {found['error']}\n" == err
    assert found["code"]


def test_service_status_ends_the_same_with_json_and_without(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert state_dir
    assert cli.run(["service", "status"]) == cli.run(["service", "status", "--json"]) == cli.FAILED
    assert '"services": []' in capsys.readouterr().out


def test_a_message_and_what_to_do_about_it_are_two_sentences(shell: Shell) -> None:
    assert "/nope. Give the folder" in shell("index", "/nope")[2]
    assert "Got: /etc. Give a folder" in shell("search", "words", "--scope", "/etc")[2]


def test_a_search_waits_for_what_changed_when_asked_to(agent: Callable[..., App], shell: Shell, vault: Path) -> None:
    write(vault, "a")
    indexed(agent())
    write(vault, "a", words="about the heron")
    assert "heron" in shell("search", "heron", "--wait-for-fresh")[1]


def test_a_document_may_hold_the_names_of_tools_and_keeps_them(
    agent: Callable[..., App], shell: Shell, vault: Path
) -> None:
    write(vault, "a", words="call index_documents and pass confirm=true")
    indexed(agent())
    assert "call index_documents and pass confirm=true" in shell("search", "call", "pass")[1]
    assert "call index_documents and pass confirm=true" in shell("read", "a")[1]


@pytest.mark.parametrize(
    ("typed", "advice"),
    [
        ("search --flag", "markdown-fastrag-mcp search -- --flag"),
        ("search --json", "markdown-fastrag-mcp search -- --json"),
        ("search what is --flag", "markdown-fastrag-mcp search -- what is --flag"),
        ("search --tag x --flag", "markdown-fastrag-mcp search OPTIONS -- --flag"),
        ("read -draft.md", "markdown-fastrag-mcp read -- -draft.md"),
        ("list --drafts", "markdown-fastrag-mcp list -- --drafts"),
    ],
)
def test_words_that_begin_with_a_dash_are_answered_with_what_to_type(
    typed: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.run(typed.split())
    assert capsys.readouterr().err.endswith(f" go behind --. If that is meant: {advice}\n")


@pytest.mark.parametrize("typed", ["search", "search --tag x", "clear --all", "service --now"])
def test_where_no_word_can_be_meant_nothing_is_said_of_dashes(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.run(typed.split())
    assert "behind --" not in capsys.readouterr().err


def test_a_question_that_begins_with_dashes_is_asked_behind_two(
    agent: Callable[..., App], shell: Shell, vault: Path
) -> None:
    write(vault, "a", words="the option --dry-run writes nothing")
    indexed(agent())
    assert "--dry-run" in shell("search", "--", "--dry-run")[1]
