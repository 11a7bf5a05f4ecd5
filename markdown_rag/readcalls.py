"""A call to read becomes one that means one thing: numbers in bounds, what contradicts set aside and said. Pure."""

# ruff: noqa: PLC0415 - the imports inside functions load numpy, which a first reply must not wait for

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from markdown_rag.budget import budget, clamped, said
from markdown_rag.errors import InputError
from markdown_rag.facade import ReadCall
from markdown_rag.library.passages import Continuation, PassageId, parse_continuation, parse_id, parse_uri

if TYPE_CHECKING:
    from markdown_rag.library.reader import ReadRequest
    from markdown_rag.store.base import FileEntry

_PLACES = ("heading", "lines")
_ROUND = ("before", "after", "section")
_BLANK = ReadCall()


def settled(call: ReadCall) -> tuple[ReadCall, str]:
    """The call as it is carried out, and a note on what of it was not taken as given. Raises InputError.

    A continuation goes before an id, an id before a path, a heading before lines; neighbours go with a passage's id. A
    path that is a document's URI is its id.
    """
    from markdown_rag.library.reader import MAX_NEIGHBOURS, MAX_TOKENS, MIN_TOKENS

    tokens, note = budget(call.max_tokens, MIN_TOKENS, MAX_TOKENS)
    if parse_uri(call.path) and not call.id and not call.continue_from:
        call = replace(call, id=call.path, path="")
    named, rest = parse_id(call.id), parse_continuation(call.continue_from)
    if (call.id and not named) or (call.continue_from and not rest):
        raise InputError("That is no id or continuation.", "Pass one as an answer gave it, or a path.")
    aside: tuple[str, ...]
    if rest:
        aside, why = ("id", "path", *_PLACES, *_ROUND), "continue_from says where to go on"
    elif named and named.text:
        aside, why = ("path", *_PLACES), "id names a passage"
    elif named:
        aside, why = ("path", *_ROUND), "id names a whole document"
    else:
        aside, why = _ROUND, "it goes with the id of a hit"
    unused = [name for name in aside if getattr(call, name) != getattr(_BLANK, name)]
    notes = [f"{name} was set aside: {why}." for name in unused]
    blank: dict[str, Any] = {name: getattr(_BLANK, name) for name in unused}
    call = replace(call, max_tokens=tokens, **blank)
    if call.heading and call.lines:
        call = replace(call, lines="")
        notes.append("lines was set aside: heading says what to read.")
    before, less = clamped("before", call.before, 0, MAX_NEIGHBOURS)
    after, more = clamped("after", call.after, 0, MAX_NEIGHBOURS)
    return replace(call, before=before, after=after), said(*notes, less, more, note)


def request_of(call: ReadCall, named: PassageId | Continuation | None, entry: FileEntry) -> ReadRequest:
    """What to read of the document that a settled call means. named: what it gave instead of a path."""
    from markdown_rag.library.reader import ReadRequest

    return ReadRequest(
        entry=entry,
        passage=named if isinstance(named, PassageId) and named.text else None,
        continuation=named if isinstance(named, Continuation) else None,
        heading=call.heading,
        lines=call.lines,
        before=call.before,
        after=call.after,
        section=call.section,
        reconstruct=call.reconstruct,
        max_tokens=call.max_tokens,
    )
