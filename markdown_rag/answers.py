"""Reports and hits as the JSON that clients get: fields of the old tool kept, ours beside them, all bounded. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from markdown_rag.facade import Json
from markdown_rag.indexing.report import Problem, Report
from markdown_rag.jobs.job import Job, Status
from markdown_rag.workspaces import Searched

if TYPE_CHECKING:
    from markdown_rag.indexing.audit import Finding
    from markdown_rag.indexing.preview import Preview
    from markdown_rag.search.answer import Hit, SearchAnswer

FINDINGS = 200
NAMES = 20  # file names and problems that a status answer repeats; the counts are whole


def job_result(report: Report, cost: float | None = None) -> Json:
    """The result of an index job. cost: of the tokens that were sent, in US dollars, None where it is not known."""
    return {
        "message": _message(report),
        "insert_count": report.inserted,
        "processed_files": report.new + report.modified,
        "total_chunks": report.chunks,
        "files": report.files[:NAMES],
        "pruned_files": report.deleted,
        "delta_counts": {"new": report.new, "modified": report.modified, "deleted": report.deleted},
        "unchanged_files": report.unchanged,
        "failed_files": report.failed,
        "embedded": report.embedded,
        "cached": report.cached,
        "tokens": report.tokens,
        "cost_usd": _dollars(cost),
        "postponed_files": report.postponed,
        "reconciled_orphans": report.orphans,
        "problem_counts": dict(report.problem_counts),
        "problems": _problems(report.problems),
        "left_out": dict(report.left_out.most_common(NAMES)),
        "excluded_bytes": report.excluded_bytes,
        "excluded": [
            {"path": e.path, "bytes": [e.start_byte, e.end_byte], "reason": e.reason} for e in report.exclusions[:NAMES]
        ],
        "timings_seconds": report.seconds,
    }


def _dollars(cost: float | None) -> float | None:
    return None if cost is None else round(cost, 6)


def _message(report: Report) -> str:
    if report.postponed:
        return (
            f"The token budget is used up: {report.postponed} files wait for the next run, which goes on from here "
            "(EMBEDDING_BUDGET_TOKENS)."
        )
    if report.new or report.modified:
        return "Incremental update"
    if report.deleted:
        return f"Pruned {report.deleted} deleted/moved files. No new files to index."
    return "Already up to date, Nothing to index!"


def preview_result(preview: Preview, target: str, cost: float | None = None) -> Json:
    """What an index run would do. cost: of the tokens to embed, in US dollars, None where it is not known."""
    return {
        "target_path": target,
        "new": len(preview.new),
        "modified": len(preview.modified),
        "deleted": len(preview.deleted),
        "unchanged": preview.unchanged,
        "files": [*preview.new, *preview.modified, *preview.deleted][:NAMES],
        "chunks": preview.chunks,
        "cached": preview.cached,
        "texts_to_embed": preview.texts_to_embed,
        "tokens_to_embed": preview.tokens_to_embed,
        "cost_usd": _dollars(cost),
        "problems": _problems(preview.problems),
        "left_out": preview.left_out,
    }


def audit_result(findings: Sequence[Finding], target: str) -> Json:
    """What is wrong between index and disk."""
    words = "The index and the disk agree" if not findings else f"{len(findings)} differences between index and disk"
    return {
        "ok": not findings,
        "target_path": target,
        "message": f"{words} for {target}.",
        "counts": dict(Counter(finding.kind.value for finding in findings)),
        "findings": [{"kind": f.kind.value, "path": f.path, "detail": f.detail} for f in findings[:FINDINGS]],
    }


def _problems(problems: Sequence[Problem]) -> list[Json]:
    return [{"path": p.path, "kind": p.kind.value, "reason": p.reason} for p in problems[:NAMES]]


def search_answer(answer: SearchAnswer, searched: Searched, active: Sequence[Job], *, explain: bool) -> Json:
    """A search's answer. active: jobs that are indexing what was searched."""
    found: Json = {
        "hits": [_hit(hit, explain=explain) for hit in answer.hits],
        "searched": searched.label + (f", scope {answer.where.scope}" if answer.where.scope else ""),
        "files": answer.total_files,
        "chunks": answer.total_chunks,
    }
    notes = [answer.empty.message] if answer.empty else []
    notes += [note for note in (answer.degraded, *answer.notes) if note]
    notes += [_under_way(job) for job in active[:1]]
    if notes:
        found["note"] = " ".join(notes)
    if answer.degraded:
        found["degraded"] = answer.degraded
    return found


def _under_way(job: Job) -> str:
    progress = job.progress
    if job.status is Status.QUEUED:
        return f"Index job {job.id} is queued for this folder; what is there already was searched."
    share = f"{progress.processed_files} of {progress.total_files} files done" if progress.total_files else "started"
    return f"Index job {job.id} is under way ({share}); what is there already was searched."


def _hit(hit: Hit, *, explain: bool) -> Json:
    shown: Json = {
        "id": hit.id,
        "path": hit.absolute or hit.path,
        "workspace": hit.workspace,
        "title": hit.title,
        "heading": hit.heading_path,
        "lines": f"{hit.excerpt_start_line}-{hit.excerpt_end_line}",
        "chunk_lines": f"{hit.start_line}-{hit.end_line}",
        "score": round(hit.score, 4),
        "freshness": hit.freshness.value,
        "tags": list(hit.tags),
        "aliases": list(hit.aliases),
        "text": hit.excerpt,
    }
    if explain:
        shown["parts"] = {name: round(value, 4) for name, value in hit.parts.items()}
        shown["bytes"] = [hit.start_byte, hit.end_byte]
    return {name: value for name, value in shown.items() if value not in ([], "")}
