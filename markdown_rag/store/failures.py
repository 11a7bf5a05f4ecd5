"""What a Milvus client's exception means: one table from codes and status words to our errors and what to do. Pure.

The client's own text is the same for a dead server, a wrong token and a TLS mismatch; the truth stands in the gRPC
status and details of the exception or of its cause.
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
from markdown_rag.store.disk import disk_failure
from markdown_rag.store.given import OF_INDEX, Given


class Kind(Enum):
    """What a caller can do about a failed call."""

    LOST = auto()  # the connection: connect again and repeat
    MISSING = auto()  # the collection does not exist
    RELEASED = auto()  # the collection is not loaded
    EXISTS = auto()  # what was to be created is there already
    FINAL = auto()  # repeating would fail in the same way


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call: what it means, and the error to raise if nothing else helps.

    unreached: no connection to the server came about.
    """

    kind: Kind
    error: StoreError
    unreached: bool = False


@dataclass(frozen=True, slots=True)
class Symptoms:
    """What can be seen of an exception. status, details: of the gRPC call in it or its causes, "" if none.

    connecting: it came while a server was connected to, before any call.
    """

    text: str
    code: int
    status: str
    illegal_address: bool = False
    details: str = ""
    connecting: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A failure that is known by a code, a status, or words of the text or of gRPC's details (any of them).

    says, next_step: the error's, with {address}, {text}, {reason} (the details after the word that was found),
    {seconds}, and what the settings are called, {given}. unless: words in the text that make it something else.
    """

    kind: Kind
    error: type[StoreError]
    says: str
    next_step: str = ""
    codes: frozenset[int] = frozenset()
    status: frozenset[str] = frozenset()
    text: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    unless: str = "\0"

    def found(self, seen: Symptoms) -> bool:
        """Whether this is it."""
        lowered = seen.text.lower()
        if self.unless in lowered:
            return False
        known = seen.code in self.codes or seen.status in self.status
        return known or any(word in lowered for word in self.text) or any(word in seen.details for word in self.details)

    def failure(self, seen: Symptoms, address: str, seconds: float, given: Given) -> Failure:
        """What it means there."""
        word = next((word for word in self.details if word in seen.details), "")
        reason = seen.details.partition(word)[2].strip(": ").partition(": OK")[0][:100] if word else ""
        text, limit = _short(seen.text), f"{seconds:.0f}"
        known = {"address": address, "text": text, "reason": reason, "seconds": limit, "given": given}
        return Failure(self.kind, self.error(self.says.format_map(known), self.next_step.format_map(known)))


CLOSED_CHANNEL = ("closed channel", "channel closed")  # what gRPC says of one, in small letters
_CHECK_SERVER = "Check that the server runs and {given.address} is right."
_CHECK_PORT = "Check the port in {given.address}: gRPC is 19530 by default, not 9091."
_CREDENTIALS = "Set {given.token} to an API key or user:password."
_FOREIGN = "What answers at {address} is not Milvus, or does not know this request: {text}."

TAKEN_AWAY = "the database was taken away"  # how the embedded engine says so


# The first that fits is taken: the surest signs stand first.
_RULES: tuple[Rule, ...] = (
    Rule(
        Kind.LOST,
        StoreUnavailable,
        "The index in {address} was taken away while it was used.",
        "Index again.",
        details=(TAKEN_AWAY,),
    ),
    Rule(
        Kind.FINAL,
        StoreAddressError,
        "The certificate of Milvus at {address} is not trusted: {reason}.",
        "Set {given.ca_file} to the certificate of the authority that issued it.",
        details=("CERTIFICATE_VERIFY_FAILED",),
    ),
    Rule(
        Kind.FINAL,
        StoreAddressError,
        "The certificate of Milvus at {address} is for another name.",
        "Write a name that the certificate carries in {given.address}.",
        details=("Hostname Verification",),
    ),
    Rule(
        Kind.FINAL,
        StoreAddressError,
        "What listens at {address} does not speak TLS.",
        "Write http:// instead of https:// in {given.address}.",
        details=("WRONG_VERSION_NUMBER",),
    ),
    Rule(
        Kind.FINAL,
        StoreFormatError,
        "What answers at {address} is not Milvus: it speaks another protocol.",
        _CHECK_PORT,
        details=("Failed parsing HTTP/2", "http1"),
    ),
    Rule(
        Kind.FINAL,
        StoreAddressError,
        "Milvus at {address} has no such database.",
        "Create it, or correct or unset {given.database}.",
        codes=frozenset({800}),
        text=("database not found", "' does not exist"),
        unless="collection",
    ),
    Rule(
        Kind.MISSING,
        StoreUnavailable,
        "The index does not exist yet.",
        "Run index_documents.",
        codes=frozenset({100}),
        text=("collection not found",),
    ),
    Rule(
        Kind.RELEASED,
        StoreUnavailable,
        "The index is not loaded yet.",
        "Try again in a few seconds.",
        codes=frozenset({101, 503}),
        text=("not loaded",),
    ),
    Rule(
        Kind.EXISTS,
        StoreError,
        "It exists already: {text}",
        text=("already exist", "duplicate collection"),
    ),
    Rule(
        Kind.LOST,
        StoreUnavailable,
        "Milvus at {address} is still starting.",
        "Try again in a minute.",
        text=("not ready", "server id mismatch", "channel not available", "no available shard"),
    ),
    Rule(
        Kind.FINAL,
        StoreAuthError,
        "Milvus at {address} knows this user, who has no right to do that ({text}).",
        "Grant it a role with the rights that docs/milvus-setup.md lists, or use other credentials in {given.token}.",
        status=frozenset({"PERMISSION_DENIED"}),
    ),
    Rule(
        Kind.FINAL,
        StoreAuthError,
        "Milvus at {address} asks for credentials, and {given.token} is not set.",
        _CREDENTIALS,
        details=("missing authorization",),
    ),
    Rule(
        Kind.FINAL,
        StoreAuthError,
        "Milvus at {address} refuses these credentials.",
        _CREDENTIALS,
        status=frozenset({"UNAUTHENTICATED"}),
        text=("auth check failure",),
    ),
    Rule(
        Kind.FINAL,
        StoreFormatError,
        _FOREIGN,
        _CHECK_PORT,
        status=frozenset({"UNIMPLEMENTED"}),
        text=("unimplemented",),  # the library hides the status when it connects
    ),
    Rule(
        Kind.FINAL,
        StoreLimitError,
        "Milvus refuses the request as too large or too many: {text}.",
        status=frozenset({"RESOURCE_EXHAUSTED"}),
    ),
    Rule(
        Kind.FINAL,
        StoreUnavailable,
        "Milvus at {address} did not answer within {seconds} s.",
        "Try again later.",
        status=frozenset({"DEADLINE_EXCEEDED"}),
        text=("timeout",),
    ),
    Rule(
        Kind.LOST,
        StoreUnavailable,
        "Milvus at {address} does not answer: nothing listens there.",
        _CHECK_SERVER,
        details=("Connection refused",),
    ),
    Rule(
        Kind.LOST,
        StoreUnavailable,
        "Milvus at {address} does not answer: nobody knows that name.",
        _CHECK_SERVER,
        details=("lookup", "Domain name not found"),
    ),
    Rule(
        Kind.LOST,
        StoreUnavailable,
        "Milvus at {address} does not answer.",
        _CHECK_SERVER,
        codes=frozenset({2}),
        status=frozenset({"UNAVAILABLE", "CANCELLED"}),
        text=(*CLOSED_CHANNEL, "should create connection first"),  # another thread has just let go of it
    ),
    Rule(Kind.FINAL, StoreError, "Milvus refused a request: {text}.", text=("",)),
)


def diagnose(seen: Symptoms, address: str, seconds: float, given: Given = OF_INDEX) -> Failure:
    """The meaning of a failed call to the server at address, which was given seconds."""
    if seen.illegal_address:
        return Failure(Kind.FINAL, illegal_address(address, given))
    full = disk_failure(seen.text, address, given)
    if full is not None:
        return Failure(Kind.FINAL, full)
    failure = next(rule for rule in _RULES if rule.found(seen)).failure(seen, address, seconds, given)
    if not seen.connecting:
        return failure
    late = seen.status == "DEADLINE_EXCEEDED"
    return Failure(failure.kind, _silent(address, seconds, given) if late else failure.error, unreached=True)


def _silent(address: str, seconds: float, given: Given) -> StoreUnavailable:
    return StoreUnavailable(
        f"Milvus at {address} did not answer within {seconds:.0f} s.",
        _CHECK_SERVER.format(given=given),
    )


def illegal_address(address: str, given: Given = OF_INDEX) -> StoreAddressError:
    """The error for an address that is none."""
    return StoreAddressError(
        f"{given.address} is not an address: {address!r}.",
        "Write http://host:19530, https://host, unix:/path, or a path that ends in .db for the embedded engine.",
    )


def speaks_tls(address: str, given: Given = OF_INDEX) -> StoreAddressError:
    """The error for a server that wants TLS at an address without it."""
    return StoreAddressError(
        f"Milvus at {address} speaks TLS.", f"Write https:// instead of http:// in {given.address}."
    )


def unreadable_ca(path: str, error: OSError, given: Given = OF_INDEX) -> StoreAddressError:
    """The error for a file of certificates that cannot be read."""
    return StoreAddressError(
        f"{given.ca_file}={path} cannot be read: {error.strerror or error}.",
        "Name a readable file of PEM certificates.",
    )


def _short(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= 300 else f"{line[:300]}…"
