"""Let the next item be made while the present one is used: stages of a run side by side, each one item ahead."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Executor, Future, wait
from contextvars import copy_context
from typing import TypeVar

from markdown_rag.clock import StopSignal

Item = TypeVar("Item")
_POLL_SECONDS = 0.2  # a stop is seen this late at most


def ahead(pool: Executor, source: Generator[Item], stop: StopSignal) -> Generator[Item]:
    """The items of source, each made in the pool while the one before is used.

    source runs in one thread at a time and is one item ahead at most. Its errors come out where its item would have.
    Raises Cancelled on request without waiting for the item in the making; in every other case nothing is under way in
    source after the last item, an error, or close().
    """
    context = copy_context()
    pending = pool.submit(context.run, _next, source)
    try:
        while item := _result(pending, stop):
            pending = pool.submit(context.run, _next, source)
            yield item[0]
    finally:
        if not stop.stopped:
            wait([pending])
            source.close()


def _next(source: Generator[Item]) -> tuple[Item] | None:
    for item in source:
        return (item,)
    return None


def _result(pending: Future[tuple[Item] | None], stop: StopSignal) -> tuple[Item] | None:
    while not wait([pending], timeout=_POLL_SECONDS).done:
        stop.check()
    return pending.result()
