"""The command line: ``markdown-fastrag-mcp`` with no arguments serves MCP over stdio; the commands do the same by hand.

Results go to standard output (as text, or as JSON with --json), everything else to stderr. Exit codes: 0 done,
1 it failed or found nothing (nor what was named), 2 wrong usage (also a folder that cannot be indexed) or a bad
variable, 130 interrupted, 141 whoever read the output has gone.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from markdown_rag import __version__, asking, terminal
from markdown_rag.amounts import amount
from markdown_rag.dashes import Command
from markdown_rag.errors import FastRagError, InputError, NotFound, SettingsError, WorkspaceError
from markdown_rag.facade import Facade, IndexCall, Unusable, job_of
from markdown_rag.service.opening import open_facade
from markdown_rag.settings import describe, load_settings
from markdown_rag.shellwords import for_shell, in_shell_words
from markdown_rag.terminal import ProgressDisplay, give_up_output, say, say_json, say_line
from markdown_rag.variables import misspelt

DONE, FAILED, USAGE, INTERRUPTED, UNREAD = 0, 1, 2, 130, 141
POLL_SECONDS = 20.0


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code. Never raises for what a user can cause."""
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    options = _parser().parse_args(list(arguments) or ["serve"])
    return _serve() if options.command == "serve" else _carry_out(options)


def _nowhere() -> TextIO:
    """Where output goes that was closed by who started us."""
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def _carry_out(options: argparse.Namespace) -> int:
    try:
        return _answered(options)
    except KeyboardInterrupt:
        say("Interrupted; what was stored stays.", sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        give_up_output()
        return UNREAD
    except OSError as error:  # foreign ones stop at the adapters, so what is left is what we write ourselves
        give_up_output()
        say(f"Error: the output cannot be written: {error.strerror or error}.", sys.stderr)
        return FAILED


def _answered(options: argparse.Namespace) -> int:
    """Carry a command out and say its answer, or its error: saying that fails like saying anything else."""
    try:
        return service(options) if options.command == "service" else _with_facade(options)
    except FastRagError as error:
        if getattr(options, "json", False):
            say_json({"error": in_shell_words(str(error)), "code": error.code})
        return told(error)


def told(error: FastRagError) -> int:
    """Say what went wrong; the exit code: whether the caller named what cannot be meant, or what is only not there."""
    if isinstance(error, SettingsError):
        say(str(error), sys.stderr)
        return USAGE
    say(f"Error: {in_shell_words(str(error))}", sys.stderr)
    misused = isinstance(error, InputError | WorkspaceError) and not isinstance(error, NotFound)
    return USAGE if misused else FAILED


def _with_facade(options: argparse.Namespace) -> int:
    app = open_facade(os.environ, Path.cwd())
    try:
        command: Callable[[Facade, argparse.Namespace], int] = options.run
        return command(app, options)
    finally:
        app.close()


def _serve() -> int:
    """The stdio server. With a bad variable it starts all the same and every tool answers with the reason."""
    from markdown_rag.server.stdio import serve  # noqa: PLC0415 - the MCP SDK costs 0.5 s, which shell commands save
    from markdown_rag.server.tools import create_server  # noqa: PLC0415

    facade: Facade
    try:
        facade = open_facade(os.environ, Path.cwd())
    except SettingsError as error:
        say(str(error), sys.stderr)
        facade = Unusable(error)
    return serve(create_server(facade), facade.close)


def index(app: Facade, options: argparse.Namespace) -> int:
    """Index a folder and follow the job to its end."""
    if options.no_cache and not options.force:
        raise InputError("--no-cache was given without --force.", "Give both to pay for every embedding again.")
    call = IndexCall(
        root=options.path,
        directory=options.directory,
        recursive=not options.no_recursive,
        force=options.force,
        use_cache=not options.no_cache,
        verify=options.verify,
        confirm_deletions=options.confirm_deletions,
        params={"current_working_directory": options.path, "directory": options.directory},
    )
    if options.dry_run:
        preview = for_shell(app.preview(call))
        say_json(preview) if options.json else terminal.show_preview(preview)
        return FAILED if preview["warning"] else DONE
    accepted = for_shell(app.index(call))
    if not options.json and accepted.get("warning"):
        say_line(accepted["warning"], sys.stderr)
    status = for_shell(_follow(app, job_of(accepted), ours=not accepted["joined"]))
    say_json(status) if options.json else terminal.show_outcome(status)
    return DONE if status.get("status") == "succeeded" else FAILED


def _follow(app: Facade, job_id: str, *, ours: bool) -> dict[str, Any]:
    """Wait for a job's end, showing its progress; an interrupt cancels the job, unless it was another's before."""
    display = ProgressDisplay()
    try:
        while True:
            status = app.status(job_id, POLL_SECONDS, display.show)
            if status.get("status") not in {"queued", "running"}:
                return status
    except KeyboardInterrupt:
        if ours:
            app.cancel(job_id)
        raise
    finally:
        display.end()


def status(app: Facade, options: argparse.Namespace) -> int:
    """Show a job."""
    found = for_shell(app.status(options.job_id))
    if options.json:
        say_json(found)
    elif not found.get("found"):
        say_line(str(found.get("message", "")))
    else:
        say_line("{job_id} {status}, {phase}, {progress_percent} %, {target_path}".format_map(found))
        terminal.show_outcome(found)
    return DONE if found.get("found") else FAILED


def cancel(app: Facade, options: argparse.Namespace) -> int:
    """Stop a job."""
    answer = for_shell(app.cancel(options.job_id))
    say_json(answer) if options.json else say_line(answer["message"])
    return DONE if answer["cancelled"] else FAILED


def clear(app: Facade, options: argparse.Namespace) -> int:
    """Remove a workspace from the index."""
    answer = for_shell(app.clear(options.workspace, confirm=options.yes))
    say_json(answer) if options.json else say_line(answer["message"])
    return DONE


def doctor(app: Facade, options: argparse.Namespace) -> int:
    """Check the installation, and one folder's index against the disk."""
    return asking.doctor(app, options, misspelt(os.environ, [variable.name for variable in describe()]))


def migrate(app: Facade, options: argparse.Namespace) -> int:
    """Copy the index to another Milvus."""
    display = ProgressDisplay()
    try:
        done = app.migrate(options.to, display.show)
    finally:
        display.end()
    if options.json:
        say_json(done)
        return DONE
    for moved in done["collections"]:
        copied = f"{amount(moved['files'], 'file')} ({amount(moved['rows'], 'chunk')}) copied"
        others = "there before: {present}, newer there: {newer}, changed meanwhile: {changed}".format_map(moved)
        say(f"{moved['collection']}: {copied}; {others}. Compared: the same.")
    say_line(f"Set MILVUS_ADDRESS={done['target']} to use it; the index at {done['source']} stays as it is.")
    return DONE


def evaluate(app: Facade, options: argparse.Namespace) -> int:
    """Score a folder of documents and questions."""
    from markdown_rag.evaluation import evaluate_folder  # noqa: PLC0415
    from markdown_rag.evaluation.page import page  # noqa: PLC0415
    from markdown_rag.evaluation.table import table  # noqa: PLC0415

    display = ProgressDisplay()
    try:
        scores = evaluate_folder(app, Path(options.path), display.show, keep=options.keep)
    finally:
        display.end()
    if options.html:
        options.html.write_text(page(scores), encoding="utf-8")
    say_json(scores) if options.json else say(table(scores))
    return DONE


def service(options: argparse.Namespace) -> int:
    """Show, end or explain the background process."""
    from markdown_rag.service import control  # noqa: PLC0415 - HTTP

    settings = load_settings(os.environ)
    if options.action == "logs":
        say(control.logs(settings))
        return DONE
    if options.action == "stop":
        count = control.stop(settings)
        say_json({"stopped": count}) if options.json else say(f"{count} ended; jobs go on when it is started again.")
        return DONE
    running = control.status(settings)
    if options.json:
        say_json({"services": running})
    for facts in () if options.json else running:
        terminal.show_service(facts)
    if not running and not options.json:
        say("No background service runs; the next call starts one.")
    return DONE if running else FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="markdown-fastrag-mcp", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Command)

    def add(name: str, function: Callable[..., int] | None, words: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=words, description=words)
        command.set_defaults(run=function)
        if function:
            command.add_argument("--json", action="store_true", help="print one JSON document")
        return command

    add("serve", None, "serve MCP over standard input and output (the default)")
    add_index_arguments(add("index", index, "index a folder, or bring its index up to date"))

    asking.add_commands(add)

    command = add("status", status, "show an index job")
    command.add_argument(
        "job_id", nargs="?", default="", help="the job (default: the latest, or what runs while it waits)"
    )
    command = add("cancel", cancel, "stop an index job")
    command.add_argument(
        "job_id", nargs="?", default="", help="the job (default: that of this folder, else the latest)"
    )

    command = add("clear", clear, "remove one folder from the index; the files stay")
    command.add_argument("--workspace", default="", help="an indexed folder (default: the current one)")
    command.add_argument("--yes", action="store_true", help="do it; without this it only says what would go")

    command = add("doctor", doctor, "check the installation, and a folder's index against the disk")
    command.add_argument(
        "path", nargs="?", default="", help="the folder (default: MARKDOWN_WORKSPACE, else the indexed one round this)"
    )
    command.add_argument("--repair", action="store_true", help="mend what can be mended without loss")

    command = add("service", None, "show or end the background process that works for all agents, or read its log")
    command.add_argument(
        "action", choices=("status", "stop", "logs"), help="status shows it, stop ends it, logs prints its log"
    )
    command.add_argument("--json", action="store_true", help="print one JSON document")

    command = add("migrate", migrate, "copy the index to another Milvus, without embedding anything")
    command.add_argument("--to", required=True, metavar="ADDRESS", help="a server's address, or a path ending in .db")

    command = add("eval", evaluate, "score a folder that holds docs/ and queries.jsonl")
    command.add_argument("path", help="the folder")
    command.add_argument("--html", type=Path, metavar="FILE", help="also write a page with the table and a chart")
    command.add_argument("--keep", action="store_true", help="leave the documents in the index afterwards")
    return parser


def add_index_arguments(command: argparse.ArgumentParser) -> None:
    """The arguments of ``index``, shared with reindex.py."""
    command.add_argument("path", nargs="?", default="", help="the folder (default: MARKDOWN_WORKSPACE, else this one)")
    command.add_argument("--directory", default="", help="only this part of it")
    command.add_argument("-f", "--force", action="store_true", help="write every file of the scope again")
    command.add_argument("--no-cache", action="store_true", help="with --force: pay for every embedding again")
    command.add_argument("--no-recursive", action="store_true", help="only the files directly in the folder")
    command.add_argument(
        "--verify", action="store_true", help="read every file, also where size and time are unchanged"
    )
    command.add_argument("--confirm-deletions", action="store_true", help="go on although most files are gone")
    command.add_argument("--dry-run", action="store_true", help="only say what would be done and what it would cost")
