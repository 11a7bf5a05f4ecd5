"""What of the façade can be called across processes, and how: one line for each method.

Signatures come from ``facade.Facade`` itself: arguments are bound by name, calls (frozen dataclasses) are taken apart
and put together by their fields, so a new method of the façade needs its line here and nothing else.
"""

from __future__ import annotations

import inspect
import typing
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from markdown_rag.errors import InputError
from markdown_rag.facade import Facade, Json

PROGRESS = "on_progress"
REQUEST_ID = "request_id"

_MINUTE, _HOUR = 60.0, 3600.0


class Lane(StrEnum):
    """Who waits for whom: calls of one lane share its threads, and no lane waits for another.

    QUICK: the ledger, and of the disk the caller's own folder alone, so that no call about a path that somebody named
    (on a network disk that is gone) keeps anybody from a cancel. WAIT: sleeps most of the time. SEARCH: what an agent
    waits for. WORK: looks at disk and store that can be long, and waits for them.
    """

    QUICK = "quick"
    WAIT = "wait"
    SEARCH = "search"
    WORK = "work"


@dataclass(frozen=True, slots=True)
class Method:
    """lane: whose threads carry it out. seconds: how long an answer may take before the service is asked for life.

    once: it must not be repeated, when its answer was lost, with these arguments. long: with these it is WORK.
    """

    lane: Lane
    seconds: float
    once: Callable[[Mapping[str, Any]], bool] = lambda _: False
    long: Callable[[Mapping[str, Any]], bool] = lambda _: False

    def lane_for(self, arguments: Mapping[str, Any]) -> Lane:
        """Whose threads carry out this call."""
        return Lane.WORK if self.long(arguments) else self.lane


def _waits_for_fresh(arguments: Mapping[str, Any]) -> bool:
    """Whether a search, as packed, walks its folders and waits for a job first."""
    call = arguments.get("call")
    return isinstance(call, Mapping) and bool(call.get("wait_for_fresh"))


METHODS: Mapping[str, Method] = {
    "index": Method(Lane.WORK, _MINUTE),
    "status": Method(Lane.WAIT, _MINUTE),
    # Without an id the latest active job is meant: the first time may have ended one, and the second would another.
    "cancel": Method(Lane.QUICK, _MINUTE, once=lambda arguments: not arguments.get("job_id")),
    "search": Method(Lane.SEARCH, _MINUTE, long=_waits_for_fresh),
    "read": Method(Lane.SEARCH, _MINUTE),
    "list_documents": Method(Lane.SEARCH, _MINUTE),
    "follow_links": Method(Lane.SEARCH, _MINUTE),
    "preview": Method(Lane.WORK, _HOUR),
    "clear": Method(Lane.WORK, 2 * _MINUTE),
    "audit": Method(Lane.WORK, _HOUR),
    "migrate": Method(Lane.WORK, 24 * _HOUR),
    "health": Method(Lane.WORK, 2 * _MINUTE),
}


@lru_cache
def _signature(name: str) -> inspect.Signature:
    return inspect.signature(getattr(Facade, name), eval_str=False)


@lru_cache
def _calls(name: str) -> Mapping[str, type[Any]]:
    """Which parameters are calls, and of which class."""
    hints = typing.get_type_hints(getattr(Facade, name))
    return {parameter: hint for parameter, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}


def takes_progress(name: str) -> bool:
    """Whether the method reports while it works."""
    return PROGRESS in _signature(name).parameters


def pack(name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Json, Callable[[Json], None] | None]:
    """A call as JSON, by parameter names, and its progress function, which stays on this side.

    A call that can carry a request id gets one, so that it can be repeated.
    """
    bound = dict(_signature(name).bind(None, *arguments, **named).arguments)
    bound.pop("self")
    on_progress = bound.pop(PROGRESS, None)
    return {parameter: _packed(value) for parameter, value in bound.items()}, on_progress


def _packed(value: Any) -> Any:
    if not is_dataclass(value) or isinstance(value, type):
        return value
    if any(field.name == REQUEST_ID for field in fields(value)) and not getattr(value, REQUEST_ID):
        value = replace(value, **{REQUEST_ID: uuid.uuid4().hex})
    return asdict(value)


def unpack(name: str, packed: Mapping[str, Any]) -> Json:
    """The named arguments of a call that came as JSON. Raises InputError for what does not fit the method."""
    calls = _calls(name)
    try:
        arguments = {
            parameter: calls[parameter](**{key: _tuple(value) for key, value in given.items()})
            if parameter in calls
            else given
            for parameter, given in packed.items()
        }
        _signature(name).bind(None, **arguments)
    except (TypeError, AttributeError) as error:
        raise InputError(
            f"These are no arguments of {name}.", "Client and service are of different versions."
        ) from error
    return arguments


def _tuple(value: Any) -> Any:
    """JSON has lists only; calls are frozen and hold tuples."""
    return tuple(value) if isinstance(value, list) else value
