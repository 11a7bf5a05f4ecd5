"""What a refused batch teaches: a bad text in it, or more texts than the provider takes.

A batch that was refused is tried in halves. If every one of its texts is embedded in the end, none was at fault: the
batch was too large, and the largest part that went through is the size to send from then on.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Split:
    """A refused batch of which ``pending`` texts are not settled yet; parent: the refused batch it is a part of."""

    pending: int
    parent: Split | None = None
    clean: bool = True
    largest: int = 0

    def settle(self, texts: int, *, embedded: bool) -> int:
        """Count a part of so many texts as embedded or refused; the learned batch size, or 0.

        The smallest refused batch that proves to be without fault decides.
        """
        self.pending -= texts
        self.clean = self.clean and embedded
        if embedded:
            self.largest = max(self.largest, texts)
        learned = self.largest if self.clean and not self.pending else 0
        above = self.parent.settle(texts, embedded=embedded) if self.parent else 0
        return learned or above
