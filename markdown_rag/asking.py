"""The shell's commands that ask: arguments, calls, and their answers on standard output."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Protocol

from markdown_rag.facade import Facade, SearchCall
from markdown_rag.terminal import say, say_json

DONE, FOUND_NOTHING = 0, 1


class Adding(Protocol):
    """Adds a command: its name, what carries it out, and words for people."""

    def __call__(
        self, name: str, function: Callable[[Facade, argparse.Namespace], int], words: str
    ) -> argparse.ArgumentParser:
        """The command's parser."""
        ...


def add_commands(add: Adding) -> None:
    """Add the commands of this module."""
    command = add("search", search, "ask a question")
    command.add_argument("query", nargs="+", help="the question")
    command.add_argument("-k", type=int, default=5, help="how many hits, 1 to 50 (default 5)")
    command.add_argument("--scope", action="append", default=[], help="only this folder or file (may be repeated)")
    _add_filters(command)
    command.add_argument("--workspace", default="", help='an indexed folder, or "all" (default: the current one)')
    command.add_argument("--explain", action="store_true", help="show what each score is made of")
    command.add_argument("--diverse", action="store_true", help="hits that say different things first")


def _add_filters(command: argparse.ArgumentParser) -> None:
    """The filters that ``search`` and ``list`` share; each may be repeated."""
    command.add_argument("--exclude", action="append", default=[], help="not this folder or file (may be repeated)")
    command.add_argument("--tag", action="append", default=[], help="only files with this tag (may be repeated)")
    command.add_argument(
        "--property",
        action="append",
        default=[],
        help="only files with status=done, date>2024-01-31 … (may be repeated)",
    )


def search(app: Facade, options: argparse.Namespace) -> int:
    """Ask a question."""
    from markdown_rag.server.render import search_text  # noqa: PLC0415

    call = SearchCall(
        query=" ".join(options.query),
        k=options.k,
        scope_path=tuple(options.scope),
        exclude_path=tuple(options.exclude),
        tags=tuple(options.tag),
        properties=tuple(options.property),
        workspace=options.workspace,
        explain=options.explain,
        diverse=options.diverse,
    )
    found = app.search(call)
    say_json(found) if options.json else say(search_text(found))
    return DONE if found["hits"] else FOUND_NOTHING
