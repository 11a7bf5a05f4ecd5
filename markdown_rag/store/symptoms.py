"""What can be seen of an exception of the Milvus client: itself, its causes, and the gRPC call inside. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from markdown_rag.store.failures import CLOSED_CHANNEL, Symptoms


def symptoms_of(error: BaseException, library: Any, *, connecting: bool = False) -> Symptoms:
    """The symptoms of an exception; library is the pymilvus module. connecting: it came before any call."""
    status = next(filter(None, map(_status, _chain(error))), "")
    code = getattr(error, "code", 0)
    illegal = isinstance(error, library.exceptions.ConnectionConfigException)
    details = " ".join(filter(None, map(_details, _chain(error))))
    return Symptoms(str(error), code if isinstance(code, int) else 0, status, illegal, details, connecting)


def says_closed(error: ValueError) -> bool:
    """Whether gRPC was asked for a call on a channel that is closed."""
    return any(words in str(error).lower() for words in CLOSED_CHANNEL)


def _details(error: BaseException) -> str:
    """What gRPC says happened, "" for other exceptions."""
    details = getattr(error, "details", None)
    return str(details() or "") if callable(details) else ""


def _status(error: BaseException) -> str:
    """The gRPC status word of an exception, "" if it has none."""
    code = getattr(error, "code", None)
    return str(getattr(code() if callable(code) else code, "name", ""))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and its causes, each once: the library raises exceptions that are their own cause."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ if error.__cause__ not in (None, error) else error.__context__
