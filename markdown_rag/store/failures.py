"""What a Milvus client's exception means: one table from codes and status words to our errors and what to do. Pure.

The client's own text is the same for a dead server, a wrong token and a TLS mismatch; the truth stands in the gRPC
status of the exception or of its cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from markdown_rag.errors import (
    StoreAddressError,
    StoreAuthError,
    StoreError,
    StoreFormatError,
    StoreLimitError,
    StoreUnavailable,
)


class Kind(Enum):
    """What a caller can do about a failed call."""

    LOST = auto()  # the connection: connect again and repeat
    MISSING = auto()  # the collection does not exist
    RELEASED = auto()  # the collection is not loaded
    EXISTS = auto()  # what was to be created is there already
    FINAL = auto()  # repeating would fail in the same way


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call: what it means, and the error to raise if nothing else helps."""

    kind: Kind
    error: StoreError


_MISSING_CODES = frozenset({100})
_RELEASED_CODES = frozenset({101, 503})
_LOST_STATUS = frozenset({"UNAVAILABLE", "CANCELLED"})


@dataclass(frozen=True, slots=True)
class Symptoms:
    """What can be seen of an exception. status: the gRPC status word of it or its causes, "" if none."""

    text: str
    code: int
    status: str
    illegal_address: bool = False


def diagnose(seen: Symptoms, address: str, seconds: float) -> Failure:
    """The meaning of a failed call to the server at address, which was given seconds."""
    lowered = seen.text.lower()
    if seen.illegal_address:
        return Failure(Kind.FINAL, illegal_address(address))
    if seen.code in _MISSING_CODES or "collection not found" in lowered:
        return Failure(Kind.MISSING, StoreUnavailable("The index does not exist yet.", "Run index_documents."))
    if seen.code in _RELEASED_CODES or "not loaded" in lowered:
        return Failure(Kind.RELEASED, StoreUnavailable("The index is not loaded yet.", "Try again in a few seconds."))
    if "already exist" in lowered or "duplicate collection" in lowered:
        return Failure(Kind.EXISTS, StoreError(f"It exists already: {_short(seen.text)}"))
    return _by_status(seen, address, seconds)


def _by_status(seen: Symptoms, address: str, seconds: float) -> Failure:
    text = _short(seen.text)
    if seen.status in {"UNAUTHENTICATED", "PERMISSION_DENIED"} or "auth check failure" in seen.text:
        return Failure(
            Kind.FINAL,
            StoreAuthError(
                f"Milvus at {address} refuses these credentials.",
                "Set MILVUS_TOKEN to an API key or user:password with rights on the collection.",
            ),
        )
    if seen.status == "UNIMPLEMENTED" or "UNIMPLEMENTED" in seen.text:  # the library hides the status when connecting
        return Failure(
            Kind.FINAL,
            StoreFormatError(
                f"What answers at {address} is not Milvus, or does not know this request: {text}.",
                "Check the port in MILVUS_ADDRESS: gRPC is 19530 by default, not 9091.",
            ),
        )
    if seen.status == "RESOURCE_EXHAUSTED":
        return Failure(Kind.FINAL, StoreLimitError(f"Milvus refuses the request as too large or too many: {text}."))
    if seen.status == "DEADLINE_EXCEEDED" or "timeout" in seen.text.lower():
        return Failure(
            Kind.FINAL,
            StoreUnavailable(f"Milvus at {address} did not answer within {seconds:.0f} s.", "Try again later."),
        )
    if seen.status in _LOST_STATUS or "closed channel" in seen.text or seen.code == _CONNECT_FAILED:
        return Failure(
            Kind.LOST,
            StoreUnavailable(
                f"Milvus at {address} does not answer.", "Check that the server runs and MILVUS_ADDRESS is right."
            ),
        )
    return Failure(Kind.FINAL, StoreError(f"Milvus refused a request: {text}."))


_CONNECT_FAILED = 2


def illegal_address(address: str) -> StoreAddressError:
    """The error for an address that is none."""
    return StoreAddressError(
        f"MILVUS_ADDRESS is not an address: {address!r}.",
        "Write http://host:19530, https://host, unix:/path, or a path that ends in .db for the embedded engine.",
    )


def _short(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= 300 else f"{line[:300]}…"
