"""The shell's commands that ask: arguments, calls, and their answers on standard output; what a checkup found."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from markdown_rag.errors import EmbeddingError, FastRagError, InputError
from markdown_rag.facade import Facade, IndexCall, Json, LinksCall, ListCall, ReadCall, SearchCall
from markdown_rag.library.passages import parse_continuation, parse_id
from markdown_rag.shellwords import for_shell, in_shell_words
from markdown_rag.terminal import say, say_bytes, say_json, say_line

DONE, FOUND_NOTHING, FAILED = 0, 1, 1
PLENTY = 1_000_000  # tokens: a list as long as --limit asks for


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
    command.add_argument("query", nargs="+", help="the question, behind -- where it begins with a dash")
    command.add_argument("-k", type=int, default=5, help="how many hits, 1 to 50 (default 5)")
    command.add_argument("--scope", action="append", default=[], help="only this folder or file (may be repeated)")
    _add_filters(command)
    command.add_argument("--workspace", default="", help='an indexed folder, or "all" (default: the current one)')
    command.add_argument("--explain", action="store_true", help="show what each score is made of")
    command.add_argument("--diverse", action="store_true", help="hits that say different things first")
    command.add_argument(
        "--expand",
        action="append",
        default=[],
        choices=("requires", "links"),
        help="add behind the hits: requires = documents they require, links = linked ones that answer too",
    )
    command.add_argument("--wait-for-fresh", action="store_true", help="index what changed there first, for up to 10 s")
    command.add_argument(
        "--max-tokens",
        type=int,
        default=0,
        help="about how many tokens the answer may have, 200 or more (default: all)",
    )

    command = add("read", read, "read a document or a part of it")
    command.add_argument("what", help="a document's path or name, the id of a hit, or where a text was cut")
    command.add_argument("--heading", default="", help="only the section under this heading")
    command.add_argument("--lines", default="", help='only these lines: "10-40"')
    command.add_argument("--before", type=int, default=0, help="with an id: chunks before the passage")
    command.add_argument("--after", type=int, default=0, help="with an id: chunks after it")
    command.add_argument("--section", action="store_true", help="with an id: the whole section")
    command.add_argument(
        "--reconstruct",
        action="store_true",
        help="the exact bytes, to a file all of them; which, and sha256, on standard error",
    )
    command.add_argument(
        "--max-tokens", type=int, default=50_000, help="most tokens of text, 50 to 50000 (default 50000)"
    )
    command.add_argument("--workspace", default="", help="an indexed folder (default: the current one)")

    command = add("list", list_documents, "show what is indexed, and what was left out")
    command.add_argument("path", nargs="?", default="", help="a folder (default: the root)")
    command.add_argument("-r", "--recursive", action="store_true", help="name the documents of subfolders too")
    _add_filters(command)
    command.add_argument("--after", default="", help="the next page: the last path of the page before")
    command.add_argument("--limit", type=int, default=50, help="documents a page, 1 to 500 (default 50)")
    _add_list_tokens(command)
    command.add_argument("--workspace", default="", help='an indexed folder, or "all" (default: the current one)')

    command = add("links", links, "walk a document's links")
    command.add_argument("path", help="the document's path or name")
    command.add_argument(
        "--direction",
        choices=("out", "in", "both"),
        default="both",
        help="out = what it links to, in = what links to it, both (default)",
    )
    command.add_argument("--hops", type=int, default=1, help="how far to go, 1 to 3 (default 1)")
    _add_list_tokens(command)
    command.add_argument("--workspace", default="", help="an indexed folder (default: the current one)")


def _add_list_tokens(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--max-tokens",
        type=int,
        default=PLENTY,
        help="about how many tokens the list may have, 200 or more (default: all)",
    )


def _add_filters(command: argparse.ArgumentParser) -> None:
    """The filters that ``search`` and ``list`` share; each may be repeated."""
    command.add_argument("--exclude", action="append", default=[], help="not this folder or file (may be repeated)")
    command.add_argument("--tag", action="append", default=[], help="only files with this tag (may be repeated)")
    command.add_argument(
        "--property",
        action="append",
        default=[],
        help="only files with status=done, date>2024-01-31, status!=done (or without a status) … (may be repeated)",
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
        from_here=True,
        explain=options.explain,
        diverse=options.diverse,
        expand=tuple(options.expand),
        wait_for_fresh=options.wait_for_fresh,
        max_tokens=options.max_tokens,
    )
    found = for_shell(app.search(call))
    say_json(found) if options.json else say(search_text(found))
    return DONE if found["hits"] else FOUND_NOTHING


def read(app: Facade, options: argparse.Namespace) -> int:
    """Print a document or a part of it; the bare text, so that it can be piped on."""
    is_id = parse_id(options.what) is not None
    is_rest = parse_continuation(options.what) is not None
    call = ReadCall(
        id=options.what if is_id else "",
        continue_from=options.what if is_rest else "",
        path="" if is_id or is_rest else options.what,
        heading=options.heading,
        lines=options.lines,
        before=options.before,
        after=options.after,
        section=options.section,
        reconstruct=options.reconstruct,
        max_tokens=options.max_tokens,
        workspace=options.workspace,
        from_here=True,
    )
    found = for_shell(app.read(call))
    if options.json:
        say_json(found)
        return DONE if found["text"] else FOUND_NOTHING
    exact = False
    if options.reconstruct and not sys.stdout.isatty():
        found, data = _whole(app, call, found)
        exact = data is not None
        say_bytes(data or b"")
    if not exact:
        say(found["text"].rstrip("\n"))
    say_line(_where(found, exact=exact), sys.stderr)
    wanted = exact or sys.stdout.isatty() if options.reconstruct else True
    return DONE if found["text"] and wanted else FOUND_NOTHING


def _whole(app: Facade, call: ReadCall, first: Json) -> tuple[Json, bytes | None]:
    """A text to its end as one answer, however many answers that took; its file's own bytes, None if not all are known.

    Raises FastRagError, also where the document changed between two answers: nothing has been written then.
    """
    from markdown_rag.markdown.decoding import encoded  # noqa: PLC0415 - only what is reconstructed needs it

    parts = [first]
    while rest := parts[-1].get("continue_from"):
        on = ReadCall(continue_from=rest, reconstruct=True, max_tokens=call.max_tokens, workspace=call.workspace)
        try:
            parts.append(for_shell(app.read(on)))
        except InputError as error:  # nobody typed what it finds fault with
            raise FastRagError(f"{first['path']} changed while it was read.", "Read it again.") from error
    known = [encoded(part["text"], part.get("sha256", "")) if part.get("exact") else None for part in parts]
    if len(parts) == 1:
        return first, known[0]
    exact = [data for data in known if data is not None]
    data = b"".join(exact) if len(exact) == len(parts) else None
    last = parts[-1]
    found = {
        **last,
        "text": "".join(part["text"] for part in parts),
        "lines": f"{first['lines'].partition('-')[0]}-{last['lines'].partition('-')[2]}",
        "bytes": [first["bytes"][0], last["bytes"][1]],
        "sha256": "not known" if data is None else hashlib.sha256(data).hexdigest(),
        "exact": data is not None,
    }
    return found, data


def _where(found: Json, *, exact: bool) -> str:
    """Where a text stands, what proves it, and what is to be known of it. exact: its bytes were written as they are."""
    facts = [f"{found['path']}, lines {found.get('lines', '-')}, {found['freshness']}."]
    if "bytes" in found:
        first, end = found["bytes"]
        shown = "shown, not exact: send it to a file for the bytes" if found["exact"] else "not exact"
        proof = "exact" if exact else shown
        facts.append(f"Bytes {first}-{end}, sha256 {found.get('sha256', 'not known')}, {proof}.")
    return " ".join([*facts, found.get("note", "")]).strip()


def list_documents(app: Facade, options: argparse.Namespace) -> int:
    """Show what is indexed."""
    from markdown_rag.server.render import list_text  # noqa: PLC0415

    call = ListCall(
        path=options.path,
        recursive=options.recursive,
        exclude_path=tuple(options.exclude),
        tags=tuple(options.tag),
        properties=tuple(options.property),
        after=options.after,
        limit=options.limit,
        max_tokens=options.max_tokens,
        workspace=options.workspace,
        from_here=True,
    )
    found = for_shell(app.list_documents(call))
    say_json(found) if options.json else say(list_text(found))
    return DONE if found["files"] else FOUND_NOTHING


def links(app: Facade, options: argparse.Namespace) -> int:
    """Walk a document's links."""
    from markdown_rag.server.render import links_text  # noqa: PLC0415

    call = LinksCall(
        path=options.path,
        direction=options.direction,
        hops=options.hops,
        max_tokens=options.max_tokens,
        workspace=options.workspace,
        from_here=True,
    )
    found = for_shell(app.follow_links(call))
    say_json(found) if options.json else say(links_text(found))
    return DONE if found["links"] else FOUND_NOTHING


def doctor(app: Facade, options: argparse.Namespace, misspelt: Sequence[tuple[str, str]] = ()) -> int:
    """Check the installation, and one folder's index against the disk.

    misspelt: names of variables that nobody reads, each with the one that may be meant.
    """
    from markdown_rag.server.render import place_of  # noqa: PLC0415

    health = app.health()
    audit = _audited(app, options, [check["name"] for check in health["checks"] if not check["ok"]])
    if options.json:
        unread = [{"name": name, "nearest": nearest} for name, nearest in misspelt]
        say_json({**health, "ok": bool(health["ok"] and audit.get("ok")), "audit": audit, "unread_variables": unread})
    else:
        for check in health["checks"]:
            say_line(f"{'ok  ' if check['ok'] else 'BAD '} {check['name']}: {in_shell_words(check['detail'])}")
        for name, nearest in misspelt:
            say_line(f"info the variable {name} is set and nobody reads it; is {nearest} meant?")
        for finding in audit.get("findings", []):
            say_line(f"BAD  {finding['kind']}: {finding['path']} {finding['detail']}")
        for link in audit.get("broken_links", []):
            say_line(f"info broken link: {link['path']}, {place_of(link['line'])}: {link['target']}")
        if audit.get("message"):
            say_line(audit["message"])
    return DONE if health["ok"] and audit.get("ok") else FAILED


def _audited(app: Facade, options: argparse.Namespace, bad: Sequence[str]) -> Json:
    """One folder's index compared with the disk, also without the model; where that cannot be, what is in the way.

    bad: the checks that failed.
    """
    left_out = "The index was not compared with the disk:"
    if others := [name for name in bad if name != "embeddings"]:
        return {"ok": False, "message": f"{left_out} first put right what is BAD above ({', '.join(others)})."}
    try:
        found = for_shell(app.audit(IndexCall(root=options.path), repair=options.repair and not bad))
    except EmbeddingError as error:
        return {"ok": False, "message": f"{left_out} {in_shell_words(str(error))}"}
    unmended = " Nothing was repaired: that takes embeddings, which are BAD above." if options.repair and bad else ""
    return {**found, "message": f"{found['message']}{unmended}"}
