"""What a disk's refusal means, in our words: the text of an OSError in, an error with what to do next out. Pure.

The embedded engine reports such an error as text alone, with its number or with the system's words.
"""

from __future__ import annotations

import errno
import os

from markdown_rag.errors import StoreUnavailable
from markdown_rag.store.given import OF_INDEX, Given

_KEPT = "then index again; what is stored stays stored."
_REFUSALS: tuple[tuple[tuple[int, ...], str, str], ...] = (
    ((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "is full", f"Free some space, {_KEPT}"),
    (
        (errno.EROFS,),
        "can only be read",
        "Make it writable, or set {given.moves} to another place; then index again.",
    ),
    ((errno.EIO,), "reports an error while it is read or written", f"Check the disk, {_KEPT}"),
)


def disk_failure(text: str, address: str, given: Given = OF_INDEX) -> StoreUnavailable | None:
    """The error for the store at address; None where the text tells of something else."""
    lowered = text.lower()
    for numbers, what, next_step in _REFUSALS:
        if any(f"[errno {number}]" in lowered or os.strerror(number).lower() in lowered for number in numbers):
            return StoreUnavailable(f"The disk that holds {address} {what}.", next_step.format(given=given))
    return None
