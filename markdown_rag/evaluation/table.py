"""Scores as text for a terminal: one line a mode and group, standard errors in brackets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markdown_rag.amounts import amount
from markdown_rag.facade import Json

SHOWN = ("hit@1", "hit@5", "recall@10", "mrr@10", "ndcg@5", "ndcg@10", "passage_recall", "passage_iou")
GROUPS = ("lang", "kind")
_REMARKS = 5


def shown(scores: Json) -> list[str]:
    """The measures that these scores have."""
    return [name for name in SHOWN if name in scores["modes"]["hybrid"]]


def verdicts(scores: Json) -> list[str]:
    """A sentence about each leg alone: whether the whole is below it.

    Before it what the scores depend on: files that the questions want and are not there, remarks of the answers.
    """
    missing = scores.get("missing_files", [])
    named = f"{', '.join(missing[:3])}{', …' if len(missing) > 3 else ''}"
    lost = [f"Not in docs/, which counts as not found: {amount(len(missing), 'file')} to be found: {named}"]
    said = [
        f"{count} of {amount(scores['questions'], 'answer')}: {text}"
        for text, count in scores.get("remarks", {}).items()
    ]
    return (
        (lost if missing else [])
        + said[:_REMARKS]
        + [
            f"nDCG@10 against {other} alone: {paired['mean']:+.3f} ({paired['error']:.3f}), "
            f"better {paired['better']}, worse {paired['worse']}: "
            + ("BELOW it beyond chance" if paired["worse_beyond_chance"] else "not below it")
            for other, paired in scores["against"].items()
        ]
    )


def rows(scores: Json) -> list[tuple[str, Json]]:
    """What is shown, in order: every mode, then every language and kind of question."""
    found = list(scores["modes"].items())
    for group in GROUPS:
        found += [(f"{group} {value}", of) for value, of in scores.get(group, {}).items()]
    return found


def table(scores: Json) -> str:
    """The whole as text."""
    names = shown(scores)
    lines = [f"{scores['set']}: {amount(scores['questions'], 'question')}, mean (standard error)"]
    lines.append(f"{'':<22}" + "".join(f"{name:>16}" for name in names))
    lines += _lines(rows(scores), names)
    return "\n".join([*lines, *verdicts(scores)])


def _lines(of_rows: Iterable[tuple[str, Json]], names: Sequence[str]) -> list[str]:
    return [f"{name:<22}" + "".join(_figure(of[m]) for m in names if m in of) for name, of in of_rows]


def _figure(of: Json) -> str:
    return f"{of['mean']:.3f} ({of['error']:.3f})".rjust(16)
