"""What all adapters of hosted models share: the key, and foreign failures as ours.

A key never leaves in an error: an exception of a vendor's library that quotes it is left out of the chain, and
messages of servers are shortened, stripped of keys, and withheld where they quote a text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from markdown_rag.embeddings.answers import ASK_AGAIN
from markdown_rag.errors import (
    EmbeddingAuthError,
    EmbeddingError,
    EmbeddingMismatch,
    EmbeddingRefused,
    EmbeddingThrottled,
    EmbeddingUnavailable,
)

T = TypeVar("T")

HIDDEN = "[hidden]"
_MESSAGE_CHARS = 200
# OpenAI's, Voyage's and Google's keys, Google's access tokens, and whatever stands after "Bearer".
_KEY_LIKE = re.compile(r"\b(?:sk|pa|al)-[\w*-]{8,}|\bAIza[\w-]{12,}|\bya29\.[\w.-]+|(?i:bearer)\s+\S+")
_QUOTE_CHARS, _QUOTE_LEAST = 24, 8
_PAYMENT_REQUIRED, _NOT_FOUND, _TOO_MANY = 402, 404, 429
_AUTH = (401, _PAYMENT_REQUIRED, 403)
_TRY_AGAIN = (408, 409, 425)
# What a library raises, beside its own errors, on an answer whose shape it does not expect.
SHAPE_ERRORS = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Account:
    """Who is asked, and with which key. provider: for people. variable: where the key comes from."""

    provider: str
    variable: str
    key: str = field(repr=False)
    required: bool = True

    def checked_key(self) -> str:
        """The key, fit for a header; EmbeddingAuthError naming the variable where it is missing or cannot be a key."""
        key = self.key.strip()
        if not key and self.required:
            raise EmbeddingAuthError(
                f"{self.provider} needs a key, and {self.variable} is not set.",
                f"Set {self.variable}, or EMBEDDING_PROVIDER=local, which needs none.",
            )
        if not key.isascii() or not key.isprintable() or " " in key:
            raise EmbeddingAuthError(
                f"{self.variable} holds a character that no key has (a line break, a blank, a typographic quote).",
                f"Copy the key again into {self.variable}.",
            )
        return key


def ask(
    account: Account,
    texts: Sequence[str],
    call: Callable[[], T],
    foreign: tuple[type[Exception], ...],
    translate: Callable[[Exception, Callable[[str], str]], EmbeddingError],
) -> T:
    """call(), with every foreign exception as one of ours.

    translate gets the exception and a function that makes a server's message fit to be shown.
    """
    try:
        return call()
    except foreign as error:
        cause = error
    # Raised outside the handler: in it, the cause would stay in the chain whatever it quotes.
    failure = translate(cause, lambda message: shown(message, account.key, texts))
    secrets = [account.key.strip(), *map(_start, texts)]
    raise failure from (None if _quotes(cause, secrets) else cause)


def by_status(account: Account, status: int, message: str, headers: Mapping[str, str] | None = None) -> EmbeddingError:
    """Our error for an HTTP status; message is fit to be shown."""
    said = f"{account.provider} answered {status}" + (f": {message}" if message else "")
    if status in _AUTH:
        what = "Check the account's credit" if status == _PAYMENT_REQUIRED else f"Check {account.variable}"
        return EmbeddingAuthError(f"{said}.", f"{what}; what is embedded is kept, the next run goes on from there.")
    if status == _TOO_MANY:
        return EmbeddingThrottled(f"{said}.", "Wait, or lower EMBEDDING_CONCURRENT_BATCHES.", retry_after(headers))
    if status in _TRY_AGAIN or status >= 500:
        return EmbeddingUnavailable(f"{said}.", "Run it again later.", retry_after(headers))
    if status == _NOT_FOUND:
        return EmbeddingRefused(f"{said}.", "Check EMBEDDING_MODEL and EMBEDDING_BASE_URL.")
    return EmbeddingRefused(f"{said}.", "Check EMBEDDING_MODEL, EMBEDDING_DIM and the text named.")


def unreachable(account: Account, error: Exception) -> EmbeddingUnavailable:
    """Our error for no connection, a reset or a timeout; in the system's words where it has some."""
    said = (cause.strerror for cause in _chain(error) if isinstance(cause, OSError))
    reason = shown(next(filter(None, said), ""), account.key, ()) or type(error).__name__
    return EmbeddingUnavailable(
        f"{account.provider} could not be reached or did not answer ({reason}).",
        "Check the network and EMBEDDING_BASE_URL, then run it again.",
    )


def unreadable(account: Account, error: Exception) -> EmbeddingMismatch:
    """Our error for an answer that is not what the API promises."""
    return EmbeddingMismatch(
        f"{account.provider} answered something that is no embedding ({type(error).__name__}).", ASK_AGAIN
    )


def retry_after(headers: Mapping[str, str] | None) -> float | None:
    """Seconds of a Retry-After header (RFC 9110: a number or a date) or OpenAI's retry-after-ms; None without.

    As the provider says, however long (``pace`` bounds it); what is no time at all (``inf``, ``nan``, words) is None.
    """
    if not headers:
        return None
    milliseconds, value = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    if (named := _seconds(milliseconds)) is not None:
        return named / 1000
    return _until(value) if (named := _seconds(value)) is None else named


def _seconds(text: str) -> float | None:
    """A finite number, at least 0; None for anything else."""
    try:
        number = float(text)
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _until(date: str) -> float | None:
    try:
        then = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (then.replace(tzinfo=then.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def shown(message: str, key: str, texts: Sequence[str]) -> str:
    """A server's message, short, on one line, without keys; "" where it quotes a text."""
    if any(start and start in message for start in map(_start, texts)):
        return ""
    plain = message.replace(key.strip(), HIDDEN) if key.strip() else message
    plain = " ".join(_KEY_LIKE.sub(HIDDEN, plain).split())
    return plain if len(plain) <= _MESSAGE_CHARS else plain[:_MESSAGE_CHARS] + "…"


def _start(text: str) -> str:
    """The first words of a text, by which a quotation of it is known; "" where they are too short to tell."""
    start = text.strip()[:_QUOTE_CHARS]
    return start if len(start) >= _QUOTE_LEAST else ""


def _quotes(error: BaseException, secrets: Sequence[str]) -> bool:
    """Whether anything in an exception's chain, as text, holds one of the secrets or what looks like a key."""
    for current in _chain(error):
        said = f"{current} {current!r}"
        if _KEY_LIKE.search(said) or any(secret and secret in said for secret in secrets):
            return True
    return False


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and all that led to it, each once."""
    seen: set[int] = set()
    queue: list[BaseException | None] = [error]
    while queue:
        current = queue.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        queue += [current.__cause__, current.__context__]
