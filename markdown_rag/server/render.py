"""Answers as text for a reader: the same facts as the structure, none left out. Pure.

Only the framed text of documents has lines of its own; every other value, whoever chose it, stays on its line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping, Sequence
from typing import Any

from markdown_rag.amounts import amount
from markdown_rag.errors import FastRagError
from markdown_rag.oneline import one_line

_SEAL = 4  # characters at least; a word of any length serves, since it is chosen to be in none of the texts
_WORDS, _LINE = 10, 200  # words and bytes of each line of a vocabulary; both are about 150 tokens at the most
NOTHING = "No meaningful results found."


def failure(error: FastRagError, fields: Container[str]) -> dict[str, Any]:
    """The structured form of an error: those of the tool's fields that an error can fill."""
    structured: dict[str, Any] = {
        "accepted": False,
        "status": "rejected",
        "message": str(error),
        "job_id": None,
        "error": str(error),
        "code": error.code,
        "found": False,
        "active_jobs": 0,
        "cancelled": False,
        "cleared": False,
        "hits": [],
        "text": "",
        "folders": [],
        "documents": [],
        "links": [],
    }
    return {name: value for name, value in structured.items() if name in fields}


def _flat(value: Any, name: str = "") -> Any:
    """A value of an answer with every text on one line, but for the texts of documents."""
    if isinstance(value, str):
        return value if name == "text" else one_line(value)
    if isinstance(value, Mapping):
        return {one_line(key): _flat(each, key) for key, each in value.items()}
    return [_flat(each, name) for each in value] if isinstance(value, list | tuple) else value


def search_text(structured: Mapping[str, Any]) -> str:
    """A search answer in the form clients of the old tool know, with what was searched, headings and lines added."""
    structured = _flat(structured)
    hits = structured.get("hits", [])
    note = structured.get("note", "")
    searched = _searched(structured)
    if not hits:
        return "\n".join(filter(None, (f"{NOTHING} {note}".strip(), searched)))
    seal = seal_of(*(hit["text"] for hit in hits))
    blocks = [*filter(None, (searched,)), *(_hit(hit, seal) for hit in hits), *filter(None, (note,))]
    return "\n---\n".join(blocks)


def _searched(structured: Mapping[str, Any]) -> str:
    """What was searched, and whether there is more, in a line."""
    if not structured.get("searched"):
        return ""
    more = "; a larger k shows more" if structured.get("more") else ""
    return f"Searched: {structured['searched']}, {amount(structured.get('files', 0), 'file')}{more}."


def _hit(hit: Mapping[str, Any], seal: str) -> str:
    name = hit["path"].rsplit("/", 1)[-1]
    lines = [
        f"File: **{name}** ({_why(hit)})",
        f"Path: `{hit['path']}`",
        f"Lines: {hit['lines']}{_standing(hit)}",
    ]
    if heading := hit.get("heading"):
        lines.append(f"Heading: {heading}")
    elif title := hit.get("title"):
        lines.append(f"Title: {title}")
    for label, key in (("Tags", "tags"), ("Aliases", "aliases")):
        if values := hit.get(key):
            lines.append(f"{label}: {', '.join(values)}{_in_all(hit, key)}")
    if parts := hit.get("parts"):
        lines.append("Parts: " + ", ".join(f"{name} {value:.3f}" for name, value in parts.items()))
    if same := hit.get("same_in"):
        lines.append(f"Nearly the same: {', '.join(same)}")
    lines.append(f"Id: {hit['id']}")
    if rest := hit.get("continue_from"):
        lines.append(f"Continue from: {rest}")
    return "\n".join([*lines, "---", f"Text: {framed(hit['text'], seal)}", "---"])


def _in_all(found: Mapping[str, Any], key: str) -> str:
    """How many names there are, where not all of them are shown."""
    count = found.get(f"all_{key}")
    return f" … {count} in all" if count else ""


def _why(hit: Mapping[str, Any]) -> str:
    """Why it is shown: for its score, or for a hit it goes with."""
    added = {"requires": "required by", "links": "linked with"}.get(hit.get("added", ""))
    return f"{added} {hit['because_of']}" if added else f"relevance: {100 * hit['score']:.1f}%"


def _standing(found: Mapping[str, Any]) -> str:
    """What became of a passage, in brackets, "" for a fresh one."""
    freshness = found.get("freshness", "fresh")
    if freshness == "fresh":
        return ""
    was = f", was {found['moved_from']}" if found.get("moved_from") else ""
    return f" ({freshness}{was})"


def read_text(found: Mapping[str, Any]) -> str:
    """Text from a document: a line on where it stands, the framed text, what else is to be known."""
    found = _flat(found)
    where = f"Path: `{found['path']}`"
    if found.get("lines"):
        where += f", lines {found['lines']} of {found['total_lines']}{_standing(found)}"
    facts = [where, *(f"{label}: {found[key]}" for label, key in _READ_FACTS if found.get(key))]
    if tags := found.get("tags"):
        facts.append(f"Tags: {', '.join(tags)}{_in_all(found, 'tags')}")
    facts.append(f"Source: {found['source']}, {amount(found['tokens'], 'token')}, {found['uri']}")
    if "bytes" in found:
        first, end = found["bytes"]
        exact = "exact" if found["exact"] else "not exact"
        stale = "stale" if found["stale"] else "not stale"
        facts.append(f"Bytes: {first}-{end}, sha256 {found.get('sha256', 'not known')}, {exact}, {stale}")
    if found["text"]:
        facts.append(framed(found["text"], seal_of(found["text"])))
    if note := found.get("note"):
        facts.append(note)
    if outline := found.get("outline"):
        facts.append("Outline:\n" + "\n".join(outline))
    return "\n".join(facts)


_READ_FACTS = (("Title", "title"), ("Heading", "heading"))


def seal_of(*texts: str) -> str:
    """A word that none of the texts holds, so that none can close the frame it is quoted in. The same for the same."""
    digest = hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()
    length = _SEAL
    while any(digest[:length] in text for text in texts):
        digest = hashlib.sha256(digest.encode()).hexdigest()
        length += 1  # a text may hold every word of four characters
    return digest[:length]


def framed(text: str, seal: str) -> str:
    """Text of a document, between marks that say it is quoted."""
    return f"<quoted {seal}>\n{text}\n</quoted {seal}>"


def list_text(found: Mapping[str, Any]) -> str:
    """A list of what is indexed, one line for each."""
    found = _flat(found)
    lines = [f"{found.get('path') or '/'} of {found['searched']}: {_size(found)}"]
    for workspace in found.get("workspaces", ()):
        place = workspace["path"] or "another machine"
        lines.append(f"workspace {workspace['workspace']} ({place}): {amount(workspace['files'], 'document')}")
    lines += _vocabulary(found.get("vocabulary", {}))
    lines += [f"{each['path']}/  {_size(each)}" for each in found["folders"]]
    lines += [_document(document) for document in found["documents"]]
    lines += _skipped(found.get("skipped", {}))
    return "\n".join([*lines, found["note"]] if found.get("note") else lines)


def _size(found: Mapping[str, Any]) -> str:
    return f"{amount(found['files'], 'document')}, {amount(found['chunks'], 'chunk')}"


def _vocabulary(found: Mapping[str, Any]) -> list[str]:
    """What can be filtered by, in two lines."""
    tags = [f"#{each['tag']} {each['files']}" for each in found.get("tags", ())]
    names = [
        f"{each['name']} {each['files']}" + (f" ({', '.join(each['values'])})" if each["values"] else "")
        for each in found.get("properties", ())
    ]
    told = (("Tags", tags, found.get("all_tags", 0)), ("Properties", names, found.get("all_properties", 0)))
    return [f"{label}: {_as_fits(words, count)}" for label, words, count in told if words]


def _as_fits(words: Sequence[str], count: int) -> str:
    """As many of the words as fit into a line, and how many there are besides."""
    shown = words[:1]
    for word in words[1:_WORDS]:
        if len(", ".join([*shown, word]).encode("utf-8", "replace")) > _LINE:
            break
        shown = [*shown, word]
    return ", ".join(shown) + (f" … {count} in all" if count > len(shown) else "")


def _document(found: Mapping[str, Any]) -> str:
    facts = [found["path"], found.get("title", ""), amount(found["chunks"], "chunk")]
    facts += [f"#{tag}" for tag in found.get("tags", ())]
    facts += [f"{found['all_tags']} tags in all"] if "all_tags" in found else []
    facts += [f"alias {alias}" for alias in found.get("aliases", ())]
    facts += [f"{found['all_aliases']} aliases in all"] if "all_aliases" in found else []
    facts += [found["freshness"]] if found.get("freshness") else []
    facts += [f"{word} {found[word]}" for word in ("changed", "indexed") if found.get(word)]
    return " | ".join(fact for fact in facts if fact)


def _skipped(told: Mapping[str, Any]) -> list[str]:
    if not told:
        return []
    counts = {**told.get("by_rule", {}), **told.get("by_reason", {})}
    lines = [f"Left out ({told.get('told_at', '')[:16]}): " + ", ".join(f"{n} by {why}" for why, n in counts.items())]
    return lines + [f"  {problem['path']}: {problem['reason']}" for problem in told.get("examples", ())]


def links_text(found: Mapping[str, Any]) -> str:
    """A document's neighbours, one line for each."""
    found = _flat(found)
    lines = [f"Links of {found['path']}: {len(found['links'])}"]
    for link in found["links"]:
        arrow = "->" if link["direction"] == "out" else "<-"
        facts = [f"{arrow} {link['path']}", link.get("title", ""), link["kind"], amount(link["hops"], "hop")]
        facts += [f"{word} {link[word]}" for word in ("via", "line", "place") if link.get(word)]
        lines.append(" | ".join(fact for fact in facts if fact))
    lines += [f"broken: {link['target']} ({place_of(link['line'])})" for link in found.get("broken", ())]
    return "\n".join([*lines, found["note"]] if found.get("note") else lines)


def place_of(line: int) -> str:
    """Where a link stands; 0 is no line of its document."""
    return f"line {line}" if line else "front matter or edge list"
