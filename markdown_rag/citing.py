"""Hits, texts and links as the JSON that clients get: each fact once, all of it bounded. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from markdown_rag.amounts import amount
from markdown_rag.facade import Json
from markdown_rag.jobs.job import Job, Status
from markdown_rag.library.passages import passage_id
from markdown_rag.paths import file_digest, printable
from markdown_rag.workspaces import Searched

if TYPE_CHECKING:
    from markdown_rag.library.expansion import Expander, Linked, Required
    from markdown_rag.library.graph import Link, Step
    from markdown_rag.library.reader import ReadAnswer
    from markdown_rag.search.answer import Empty, Hit, SearchAnswer, SearchRequest
    from markdown_rag.store.base import FileEntry

NAMES = 20


def document_uri(workspace: str, path: str) -> str:
    """The resource that holds a whole document, by the part of its passages' ids that stands for the file."""
    return f"docs://{file_digest(workspace, path)}"


def search_answer(
    answer: SearchAnswer,
    searched: Searched,
    active: Sequence[Job],
    *,
    explain: bool,
    scopes: Sequence[str] = (),
    added: Sequence[Json] = (),
) -> Json:
    """A search's answer.

    active: jobs that are indexing what was searched; scopes: the folders and files it was narrowed to, where there are
    several; added: what follows the hits.
    """
    within = [each for each in (answer.where.scope, *scopes) if each]
    found: Json = {
        "hits": [*(hit_answer(hit, explain=explain) for hit in answer.hits), *added],
        "searched": ", ".join([searched.label, *(["scope " + ", ".join(within)] if within else [])]),
        "files": answer.total_files,
        "chunks": answer.total_chunks,
        "more": answer.more,
    }
    notes = [_why_empty(answer.empty, active)] if answer.empty else []
    notes += [note for note in (answer.degraded, *answer.notes) if note]
    job = _foremost(searched, active)
    if job:
        notes.append(meanwhile(searched, active))
    if notes:
        found["note"] = " ".join(notes)
    if answer.degraded:
        found["degraded"] = answer.degraded
    if job:
        found["indexed_percent"] = job.progress.percent
    return found


def _why_empty(empty: Empty, active: Sequence[Job]) -> str:
    """Why there is no hit; who is indexing is not told to index."""
    if active and empty.reason is empty.reason.NOTHING_INDEXED:
        return "Nothing of what was searched is stored yet."
    return empty.message


def marked(found: Json, degraded: str) -> Json:
    """The same answer with one more reason why it is not the best there could be; "" for none."""
    if not degraded:
        return found
    said = {name: " ".join(filter(None, (degraded, found.get(name)))) for name in ("note", "degraded")}
    return {**found, **said}


def meanwhile(searched: Searched, active: Sequence[Job]) -> str:
    """What the jobs that run at this moment mean for an answer; "" where there is none."""
    job = _foremost(searched, active)
    if job is None:
        return ""
    folder = printable(str(job.request.scope.absolute))
    if _is_awaited(job, searched):
        return f"{folder} is being indexed right now (job {job.id}, {how_far(job)}); the answer is from elsewhere."
    which = f"Index job {job.id}" if searched.ids else f"Index job {job.id} of {folder}"
    stand = "is queued" if job.status is Status.QUEUED else f"is under way ({how_far(job)})"
    return f"{which} {stand}; the answer is of what is there already."


def how_far(job: Job) -> str:
    """How far a job has come, in a few words."""
    if job.status is Status.QUEUED:
        return "queued"
    progress = job.progress
    done = f"{progress.processed_files:,} of {amount(progress.total_files, 'file')} done, {progress.percent:g} %"
    return done if progress.total_files else "started"


def _foremost(searched: Searched, active: Sequence[Job]) -> Job | None:
    """The job that an answer speaks of: that of the folder which everything is searched instead of, else the first."""
    return next((job for job in active if _is_awaited(job, searched)), next(iter(active), None))


def _is_awaited(job: Job, searched: Searched) -> bool:
    here = searched.instead_of
    return here is not None and job.request.scope.workspace.root in (here, *here.parents)


def hit_answer(hit: Hit, *, explain: bool = False) -> Json:
    """One cited passage."""
    moved = hit.indexed_line != hit.excerpt_start_line
    was = f"{hit.indexed_line}-{hit.indexed_line + hit.excerpt_end_line - hit.excerpt_start_line}" if moved else ""
    shown: Json = {
        "id": passage_id(hit.workspace, hit.path, hit.ord, hit.text_hash),
        "path": hit.absolute or hit.path,
        "workspace": "" if hit.absolute else hit.workspace,
        "title": hit.title,
        "heading": hit.heading_path,
        "lines": f"{hit.excerpt_start_line}-{hit.excerpt_end_line}",
        "moved_from": was,
        "score": round(hit.score, 3),
        "freshness": hit.freshness.value,
        **some("tags", hit.tags),
        **some("aliases", hit.aliases),
        "uri": document_uri(hit.workspace, hit.path),
        "text": hit.excerpt,
        "same_in": list(hit.same_in[:NAMES]),
    }
    if explain:
        shown["parts"] = {name: round(value, 4) for name, value in hit.parts.items()}
        shown["chunk_lines"] = f"{hit.start_line}-{hit.end_line}"
        shown["bytes"] = [hit.start_byte, hit.end_byte]
    return without_blanks(shown)


def added_answers(
    expander: Expander, request: SearchRequest, hits: Sequence[Hit], expand: Sequence[str], roots: Mapping[str, Path]
) -> list[Json]:
    """What follows the hits of a search: documents they require, neighbours that answer too, as asked for."""
    required = expander.required(hits) if "requires" in expand else ()
    linked = expander.linked(request, hits) if "links" in expand else ()
    shown = [required_answer(each, roots.get(each.answer.entry.workspace)) for each in required]
    return [*shown, *map(linked_answer, linked)]


def linked_answer(linked: Linked) -> Json:
    """A neighbour of the hits that answers the question too."""
    return {**hit_answer(linked.hit), "added": "links", "because_of": linked.because_of}


def required_answer(required: Required, root: Path | None) -> Json:
    """A document that a hit requires."""
    answer, entry = required.answer, required.answer.entry
    shown: Json = {
        "id": passage_id(entry.workspace, entry.path, 0, required.text_hash),
        "path": str(root / entry.path) if root else entry.path,
        "workspace": entry.workspace,
        "title": entry.title,
        "lines": f"{answer.start_line}-{answer.end_line}",
        "score": 0.0,
        "freshness": answer.freshness.value,
        **some("tags", entry.tags),
        "uri": document_uri(entry.workspace, entry.path),
        "text": answer.text,
        "added": "requires",
        "because_of": required.because_of,
        "continue_from": str(answer.continuation or ""),
    }
    return without_blanks(shown, keep=("text",))


def links_answer(entry: FileEntry, steps: Sequence[Step], broken: Sequence[Link], titles: Mapping[str, str]) -> Json:
    """The neighbours of a document. titles: by path."""
    return {
        "path": entry.path,
        "title": entry.title,
        "links": [
            without_blanks(
                {
                    "path": step.path,
                    "title": titles.get(step.path, ""),
                    "direction": "out" if step.forward else "in",
                    "hops": step.hops,
                    "kind": step.link.edge.kind,
                    "via": "" if step.hops == 1 else step.link.source if step.forward else step.link.target,
                    "line": step.link.edge.line,
                    "place": step.link.edge.place,
                }
            )
            for step in steps
        ],
        "broken": [broken_link(link) for link in broken],
    }


def broken_link(link: Link) -> Json:
    """A link that leads to no indexed document."""
    return {"path": link.source, "line": link.edge.line, "target": link.edge.target, "kind": link.edge.kind}


def read_answer(answer: ReadAnswer, root: Path | None, tokens: Callable[[str], int]) -> Json:
    """Text with what is to be known of it. root: of its workspace on this machine."""
    from markdown_rag.markdown.chunking import HEADING_JOIN  # noqa: PLC0415 - whoever has an answer has loaded it

    entry, proof = answer.entry, answer.proof
    shown: Json = {
        "path": str(root / entry.path) if root else entry.path,
        "workspace": entry.workspace,
        "title": entry.title,
        "heading": HEADING_JOIN.join(answer.heading),
        "lines": f"{answer.start_line}-{answer.end_line}" if answer.text else "",
        "total_lines": answer.total_lines,
        "moved_from": f"{answer.was_lines[0]}-{answer.was_lines[1]}" if answer.was_lines else "",
        "freshness": answer.freshness.value,
        "stale": answer.stale,
        "source": answer.source,
        **some("tags", entry.tags),
        "uri": document_uri(entry.workspace, entry.path),
        "text": proof.text if proof else answer.text,
        "tokens": tokens(answer.text),
        "outline": list(answer.outline),
    }
    if proof:
        shown |= {"bytes": [proof.start_byte, proof.end_byte], "sha256": proof.sha256, "exact": proof.exact}
    notes = list(answer.notes)
    if proof and not proof.exact:
        notes.append("The file's exact bytes cannot be given as text from here; sha256, where given, is of the bytes.")
    if answer.continuation:
        shown["continue_from"] = str(answer.continuation)
        notes.append(
            f"Cut after line {answer.end_line}: call read_document(continue_from={str(answer.continuation)!r}) for the "
            "rest, or ask for lines or a heading of the outline."
        )
    return without_blanks({**shown, "note": " ".join(notes)}, keep=("text",))


def some(name: str, values: Sequence[str]) -> Json:
    """Names that a document gives, of which it may have hundreds: the first, and how many there are if more."""
    return {name: list(values[:NAMES]), f"all_{name}": len(values) if len(values) > NAMES else ""}


def without_blanks(shown: Json, keep: Sequence[str] = ()) -> Json:
    """An object without the fields that say nothing. keep: those that stay all the same."""
    return {name: value for name, value in shown.items() if name in keep or value not in ([], "", {}, None)}
