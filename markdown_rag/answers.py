"""Reports as the JSON that clients get: fields of the old tool kept, ours beside them, all bounded. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markdown_rag.amounts import amount
from markdown_rag.citing import how_far
from markdown_rag.facade import Json
from markdown_rag.indexing.report import Problem, ProblemKind, Report
from markdown_rag.jobs.job import Job
from markdown_rag.paths import Scope, is_within

if TYPE_CHECKING:
    from markdown_rag.indexing.audit import Finding
    from markdown_rag.indexing.preview import Preview

FINDINGS = 200
KEPT_PROBLEMS = 50
_INDEXED_ALL_THE_SAME = frozenset({ProblemKind.WARNING, ProblemKind.STATE})
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
        waiting = amount(report.postponed, "file waits", "files wait")
        return (
            f"The token budget is used up: {waiting} for the next run, which goes on from here "
            "(EMBEDDING_BUDGET_TOKENS)."
        )
    if report.failed:
        done = amount(report.new + report.modified, "was", "were")
        return f"{amount(report.failed, 'file')} could not be indexed (see problems); {done}. The next run tries again."
    if report.new or report.modified:
        return "Incremental update"
    if report.deleted:
        return f"Pruned {amount(report.deleted, 'deleted/moved file')}. No new files to index."
    return "Already up to date, Nothing to index!"


def skipped(report: Report, scope: Scope, before: Mapping[str, Any]) -> Json:
    """What a run left out, for who asks later. before: what was known; a run over a part replaces only its part."""
    unkept = [problem for problem in report.problems if problem.kind not in _INDEXED_ALL_THE_SAME]
    found = {"problems": _problems(unkept, KEPT_PROBLEMS), "counts": _without_kept(report.problem_counts)}
    if scope.recursive and not scope.path:
        return {**found, "left_out": dict(report.left_out.most_common(NAMES)), "excluded_bytes": report.excluded_bytes}
    others = [problem for problem in before.get("problems", []) if not is_within(problem["path"], scope.path)]
    counts = Counter(before.get("counts", {}))
    counts.subtract(Counter(problem["kind"] for problem in before.get("problems", []) if problem not in others))
    counts.update(found["counts"])
    return {**before, "problems": [*others, *found["problems"]][:KEPT_PROBLEMS], "counts": dict(+counts)}


def _without_kept(counts: Mapping[str, int]) -> dict[str, int]:
    return {kind: count for kind, count in counts.items() if kind not in _INDEXED_ALL_THE_SAME}


def preview_result(preview: Preview, target: str, cost: float | None = None) -> Json:
    """What an index run would do. cost: of the tokens to embed, in US dollars, None where it is not known."""
    would_stop = f"The run would stop and change nothing: {preview.refusal}" if preview.refusal else ""
    return {
        "target_path": target,
        "warning": would_stop,
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


def not_indexed(root: str, *, ok: bool, job: Job | None = None) -> Json:
    """What is said of a folder that is in no index, in place of each file that is missing. job: of its first run."""
    message = f"{root} is not indexed yet: index_documents(current_working_directory={root}) does that."
    if job is not None:
        message = f"{root} is being indexed right now (job {job.id}, {how_far(job)}); nothing of it is stored yet."
    return {"ok": ok, "target_path": root, "message": message, "counts": {}, "findings": [], "broken_links": []}


_AGREE = "The index and the disk agree"
_NEXT = "An index run puts right what was only edited or deleted since."


def audit_result(findings: Sequence[Finding], target: str, failures: Sequence[str] = ()) -> Json:
    """What is wrong between index and disk. failures: what stopped a repair."""
    what = amount(len(findings), "difference")
    words = [f"{what} between index and disk for {target}.", _NEXT] if findings else [f"{_AGREE} for {target}."]
    return {
        "ok": not findings,
        "target_path": target,
        "message": " ".join([*words, *(f"Not repaired: {failure}" for failure in failures)]),
        "counts": dict(Counter(finding.kind.value for finding in findings)),
        "findings": [{"kind": f.kind.value, "path": f.path, "detail": f.detail} for f in findings[:FINDINGS]],
    }


def _problems(problems: Sequence[Problem], limit: int = NAMES) -> list[Json]:
    return [{"path": p.path, "kind": p.kind.value, "reason": p.reason} for p in problems[:limit]]
