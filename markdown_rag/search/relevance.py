"""The score that is shown, 0 to 1, absolute, so that it compares between queries; and whether a hit is relevant. Pure.

The score has two parts that do not depend on the other hits: the share of the query's words that the chunk holds, and
the similarity on the model's own scale. Either can make a hit sure. It never orders an answer; the ranking sum does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

from markdown_rag.embeddings.local import MODEL as LOCAL_MODEL
from markdown_rag.store.base import Model

# Holding every word of the query is good evidence, not proof: a word has other meanings.
_COVERAGE_WORTH = 0.7
FEWEST = 20  # candidates
_SURE = 0.4  # a score that is shown however little it stands out
_FAINT = 0.05  # a best score that is no answer where there is too little to stand out from


@dataclass(frozen=True, slots=True)
class DenseScale:
    """A model's units. low: the similarity of unrelated text (shown as 0); high: that of a sure answer (shown as 1).

    spread: the least distance between best and worst candidate that the ranking stretches to its full scale. peak: by
    how much the best candidate is nearer than the middle one if anything is relevant; 0 where it was not measured.
    """

    low: float
    high: float
    spread: float
    peak: float


# Over 705 questions on four sets: the first hit of a question about something else lies at .05 to .35, a right file at
# .1 to .6 (5 % to 95 %).
# The peak: of five sets' own questions that find their answer none of 1,125 is refused, of 214 on other things 14 to
# 201 (docs/optimization.md).
_LOCAL = DenseScale(low=0.1, high=0.6, spread=0.2, peak=0.1)
_UNMEASURED = DenseScale(low=0.2, high=0.8, spread=0.0, peak=0.0)


def dense_scale(model: Model) -> DenseScale:
    """The units of a model: measured for the bundled one, a wide guess for every other."""
    return _LOCAL if (model.provider, model.model) == ("local", LOCAL_MODEL) else _UNMEASURED


def relevance(coverage: float, similarity: float | None, scale: DenseScale) -> float:
    """How sure a hit is. similarity: the inner product, None where it was not searched for or not among the nearest."""
    near = 0.0 if similarity is None else min(1.0, max(0.0, (similarity - scale.low) / (scale.high - scale.low)))
    return round(1.0 - (1.0 - near) * (1.0 - _COVERAGE_WORTH * coverage), 4)


def falling(scores: Iterable[float]) -> list[float]:
    """The scores of hits in their order, none above the one before it.

    The ranking knows more than the two parts do: over 2,247 questions on five sets, a lower hit with a higher score was
    rarely the right one (mean squared error .137 instead of .167).
    """
    return list(accumulate(scores, min))


def nothing_relevant(
    trust: float, similarities: Sequence[float], surest: float, scale: DenseScale, floor: float
) -> bool:
    """Whether a query is about something else: its words are not trusted, and no chunk is sure or stands out.

    trust: the gate. similarities: of the dense candidates; of too few, no middle can be told. surest: the best score.
    """
    if trust > floor or surest >= _SURE or not similarities or not scale.peak:
        return False
    if len(similarities) < FEWEST:
        return surest < _FAINT
    return max(similarities) - median(similarities) < scale.peak
