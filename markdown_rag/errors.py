"""What can go wrong, in our own words.

Every error that leaves a part of this package is one of these; foreign exceptions stop at the adapter that
knows them (``raise ... from cause``). ``str(error)`` is fit for a model or a person to read: what was wrong,
then what to do next. No message ever holds a key or the text of a document.

    FastRagError
      SettingsError            a variable's value is not allowed
      InputError               an argument of a tool or a command is not allowed
        NotFound               what it names is not there: a document, a heading, a folder, a workspace
      StateError               the state directory or a file in it cannot be used
      WorkspaceError           a workspace cannot be used (missing, refused, unreadable)
      EmbeddingError
        EmbeddingUnavailable   the provider did not answer in time, or asks to come back later
          EmbeddingThrottled   it works and asks for fewer requests
        EmbeddingAuthError     the key is missing, wrong or without rights
        EmbeddingRefused       the provider refuses this request for good (a text, a model name)
        EmbeddingMismatch      what came back is not what was asked (count, dimension, NaN)
      StoreError
        StoreUnavailable       the server or engine does not answer
        StoreAuthError         the token or user is wrong or without rights
        StoreAddressError      the address is not one
        StoreFormatError       what lies at the address is not our kind of store
        StoreMismatch          the collection was made by another model or schema
        StoreLimitError        a row or request is over the store's limits
      GuardError               a run stopped because going on might lose data (see I2)
      JobError                 a job does not exist or cannot do what was asked
      StartError               a background process of ours cannot be started
      ServiceError             the background service failed, or ended while it was asked
      Cancelled                somebody asked for the work to stop
"""

from __future__ import annotations

from markdown_rag.oneline import one_line

_SHOWN = 12_000  # characters of a message: a line for each variable there is; what was given may be megabytes


class FastRagError(Exception):
    """Base of all errors of this package.

    message: what was wrong, one sentence; kept as valid Unicode of bounded length, on one line, since it may repeat
    what was given or what a disk holds. next_step: what the reader can do about it, one sentence or "". code: a short
    stable word for programs.
    """

    code = "error"
    has_lines = False  # whether the message is made of lines of ours, each of them safe already

    def __init__(self, message: str, next_step: str = "") -> None:
        shown = message if len(message) <= _SHOWN else f"{message[:_SHOWN]}…"
        shown = shown.encode("utf-8", "backslashreplace").decode()
        self.message = shown if self.has_lines else one_line(shown)
        self.next_step = one_line(next_step)
        super().__init__(self.message)

    def __str__(self) -> str:
        ended = not self.message or self.message.endswith((".", "!", "?", "…", ":"))
        return f"{self.message}{'' if ended or not self.next_step else '.'} {self.next_step}".strip()


class SettingsError(FastRagError):
    """A variable's value is not allowed. A line for each variable."""

    code = "settings"
    has_lines = True


class InputError(FastRagError):
    """An argument of a tool or a command is not allowed."""

    code = "input"


class NotFound(InputError):
    """What an argument names is not there, or not indexed: a document, a part of one, a folder, a workspace."""

    code = "not_found"


class StateError(FastRagError):
    """The state directory or a file in it cannot be used."""

    code = "state"


class WorkspaceError(FastRagError):
    """A workspace cannot be used: missing, refused or unreadable."""

    code = "workspace"


class EmbeddingError(FastRagError):
    """Something about turning texts into vectors went wrong."""

    code = "embedding"


class EmbeddingUnavailable(EmbeddingError):
    """The provider did not answer in time, or asks to come back later (429, 5xx, timeout, no connection).

    retry_after: seconds the provider asked us to wait, or None.
    """

    code = "embedding_unavailable"

    def __init__(self, message: str, next_step: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, next_step)
        self.retry_after = retry_after


class EmbeddingThrottled(EmbeddingUnavailable):
    """The provider works and asks for fewer requests (429): everybody slows down, no text is at fault."""

    code = "embedding_throttled"


class EmbeddingAuthError(EmbeddingError):
    """The key is missing, wrong or without rights (401, 403)."""

    code = "embedding_auth"


class EmbeddingRefused(EmbeddingError):
    """The provider refuses this request for good (400, 404, 413, 422)."""

    code = "embedding_refused"


class EmbeddingMismatch(EmbeddingError):
    """What came back is not what was asked: count, dimension, values that are not finite, not JSON."""

    code = "embedding_mismatch"


class StoreError(FastRagError):
    """Something about storing or finding rows went wrong."""

    code = "store"


class StoreUnavailable(StoreError):
    """The server or the engine does not answer."""

    code = "store_unavailable"


class StoreAuthError(StoreError):
    """The token or user is wrong or without rights."""

    code = "store_auth"


class StoreAddressError(StoreError):
    """The address is not one."""

    code = "store_address"


class StoreFormatError(StoreError):
    """What lies at the address is not our kind of store (an old single-file database, a foreign service)."""

    code = "store_format"


class StoreMismatch(StoreError):
    """The collection was made by another model or schema."""

    code = "store_mismatch"


class StoreLimitError(StoreError):
    """A row or request is over the store's limits."""

    code = "store_limit"


class GuardError(FastRagError):
    """A run stopped because going on might lose data. ``paths`` are the files it would have removed."""

    code = "guard"

    def __init__(self, message: str, next_step: str = "", paths: tuple[str, ...] = ()) -> None:
        super().__init__(message, next_step)
        self.paths = paths


class JobError(FastRagError):
    """A job does not exist or cannot do what was asked."""

    code = "job"


class StartError(FastRagError):
    """A background process of ours cannot be started or does not answer."""

    code = "start"


class ServiceError(FastRagError):
    """The background service failed, or ended while it was asked."""

    code = "service"


class Cancelled(FastRagError):
    """Somebody asked for the work to stop. What is stored stays stored."""

    code = "cancelled"

    def __init__(self, message: str = "Cancelled on request.", next_step: str = "") -> None:
        super().__init__(message, next_step)
