"""How good a ranking is: the measures that ``eval`` prints. Pure, standard library only.

File measures take a ranking of paths (doubles and excluded files dropped) against gold files (gain 1) and partial ones
(gain ½). Passage measures compare ranges of characters as brandonstarxel/chunking_evaluation does. A query without an
answer counts 0. Standard errors are those of the mean; two systems are compared question by question.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

HIT_CUTS = (1, 3, 5, 10)
NDCG_CUTS = (5, 10)
Range = tuple[int, int]  # start, end (exclusive)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over n questions and its standard error."""

    mean: float
    error: float
    n: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of a − b over the same questions, its standard error, and how often a was better or worse."""

    mean: float
    error: float
    n: int
    better: int
    worse: int

    @property
    def worse_beyond_chance(self) -> bool:
        """Whether a is below b by more than two standard errors."""
        return self.mean < -2 * self.error


def file_measures(
    ranking: Sequence[str], gold: Collection[str], partial: Collection[str] = (), excluded: Collection[str] = ()
) -> dict[str, float]:
    """hit@1 3 5 10, recall@10, mrr@10, ndcg@5 10 of one question. gold must not be empty."""
    right = set(gold)
    half = set(partial) - right
    dropped = set(excluded) - right
    files = [file for file in dict.fromkeys(ranking) if file not in dropped]
    first = next((place for place, file in enumerate(files, 1) if file in right), None)
    measures = {f"hit@{cut}": float(first is not None and first <= cut) for cut in HIT_CUTS}
    measures["recall@10"] = len(right.intersection(files[:10])) / len(right)
    measures["mrr@10"] = 1 / first if first is not None and first <= 10 else 0.0
    ideal = [1.0] * len(right) + [0.5] * len(half)
    for cut in NDCG_CUTS:
        gains = [1.0 if file in right else 0.5 if file in half else 0.0 for file in files[:cut]]
        measures[f"ndcg@{cut}"] = _discounted(gains) / _discounted(ideal[:cut])
    return measures


def passage_measures(retrieved: Sequence[tuple[str, Range]], gold: Mapping[str, Sequence[Range]]) -> dict[str, float]:
    """recall, precision and IoU of retrieved (file, range) passages against gold ranges by file (not empty).

    Overlaps between passages, and passages of other files, count in full as retrieved.
    """
    wanted = {file: union(ranges) for file, ranges in gold.items()}
    total = sum(length(ranges) for ranges in wanted.values())
    size = sum(end - start for _, (start, end) in retrieved)
    common: dict[str, list[Range]] = {}
    for file, (start, end) in retrieved:
        for low, high in wanted.get(file, ()):
            if max(start, low) < min(end, high):
                common.setdefault(file, []).append((max(start, low), min(end, high)))
    covered = sum(length(union(ranges)) for ranges in common.values())
    return {
        "passage_recall": covered / total,
        "passage_precision": covered / size if size else 0.0,
        "passage_iou": covered / (size + total - covered),
        "passage_characters": float(size),
    }


def union(ranges: Iterable[Range]) -> list[Range]:
    """Ranges that touch or overlap, merged, in order."""
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def length(ranges: Iterable[Range]) -> int:
    """The characters in ranges that do not overlap."""
    return sum(end - start for start, end in ranges)


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and standard error of a measure over questions; zeros for none."""
    if not values:
        return Estimate(0.0, 0.0, 0)
    mean = math.fsum(values) / len(values)
    return Estimate(mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values)) / len(values), len(values))


def summary(rows: Sequence[Mapping[str, float]]) -> dict[str, Estimate]:
    """Every measure that occurs in the rows, over those questions that have it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: estimate([row[name] for row in rows if name in row]) for name in names}


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """What ours is better by than theirs, paired: value i of both belongs to the same question."""
    pairs = list(zip(ours, theirs, strict=True))
    result = estimate([a - b for a, b in pairs])
    return Difference(result.mean, result.error, result.n, sum(a > b for a, b in pairs), sum(a < b for a, b in pairs))


def _discounted(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(place + 2) for place, gain in enumerate(gains))
