"""The façade's messages in the words of the shell: a tool's name becomes a command, an argument an option.

Messages name what to call next as the tools have it; whoever reads them in a terminal has commands and options
instead. Only sentences of ours are translated, never the text of a document. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from markdown_rag.facade import Json

SENTENCES = ("message", "note", "warning", "next", "error", "degraded")  # fields of an answer that hold our words

_Made = str | Callable[[re.Match[str]], str]


def _quoted(made: str) -> Callable[[re.Match[str]], str]:
    """A command with what was found in the message, each part as one word of a shell."""
    return lambda found: made.format(*map(shlex.quote, found.groups()))


def _word(name: str) -> str:
    """A pattern for a name that stands alone: not a part of a path or of another name."""
    return rf"(?<![\w/.-]){name}(?![\w/-]|\.\w)"


# A path may hold a bracket: it ends where the sentence goes on as ours do (answers.not_indexed, workspaces).
_RULES: tuple[tuple[re.Pattern[str], _Made], ...] = tuple(
    (re.compile(pattern), made)
    for pattern, made in (
        (
            r"\bindex_documents\(current_working_directory=(.+?), directory=(.+?)\)(?= instead, )",
            _quoted("`index {} --directory {}`"),
        ),
        (r"\bindex_documents\(current_working_directory=(.+?)\)(?= does that\.)", _quoted("`index {}`")),
        (r"\bclear_index\(workspace=(.+?)\)(?= removes |\.(?: Inside |$))", _quoted("`clear --workspace {}`")),
        (r"\bread_document\(continue_from=['\"]?([\w-]+)['\"]?\)", _quoted("`read {}`")),
        (r"\bget_index_status\(job_id, wait_seconds=\d+\)", "`status`"),
        (_word("index_documents"), "`index`"),
        (_word("get_index_status"), "`status`"),
        (_word("search_documents"), "`search`"),
        (_word("read_document"), "`read`"),
        (_word("list_documents"), "`list`"),
        (_word("follow_links"), "`links`"),
        (_word("cancel_index"), "`cancel`"),
        (_word("clear_index"), "`clear`"),
        (r"\bconfirm=true\b", "--yes"),
        (r"(?<![\w-])wait_for_fresh(?:=true)?(?![\w-])", "--wait-for-fresh"),
        (r"(?<![\w-])diverse=true\b", "--diverse"),
        (_word("confirm_deletions"), "--confirm-deletions"),
        (r'(?<![\w-])workspace="?(\w*)"?', r"--workspace \1"),
        (r"(?<![\w-])max_tokens=(-?\d+)", r"--max-tokens \1"),
        (_word("max_tokens"), "--max-tokens"),
        (r"(?<![\w-])after=(?=['\"])", "--after "),
        (_word("scope_path"), "--scope"),
        (_word("exclude_path"), "--exclude"),
        (r"\bproperties: (?=['\"])", "--property: "),
        (r"(?<![\w-])directory=(.+?) for this file", _quoted("--directory {} for this file")),
        (r"\bPass directory relative\b", "Pass --directory relative"),
        (r"\bcurrent_working_directory and directory\b", "PATH and --directory"),
        (_word("current_working_directory"), "PATH"),
    )
)


def in_shell_words(text: str) -> str:
    """A message as the shell says it."""
    for pattern, made in _RULES:
        text = pattern.sub(made, text)
    return re.sub(r"(--workspace) (?=[ .,;]|$)", r"\1", text)


def for_shell(answer: Json) -> Json:
    """An answer whose sentences of ours are as the shell says them; everything else as it was."""
    said = {name: in_shell_words(text) for name in SENTENCES if isinstance(text := answer.get(name), str)}
    return {**answer, **said}
