"""Serving one client over standard input and output, and leaving quickly and cleanly whatever ends it.

End of input, SIGTERM and SIGINT, idle or busy, end the process within a second: running jobs are told to stop, what
they stored stays, the state is closed. Worker threads that cannot be stopped do not hold the process.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable

import anyio

from markdown_rag.server.tools import FastRagServer

CLOSE_SECONDS = 0.8  # how long closing may take before the process leaves anyway; hosts kill after one or two

log = logging.getLogger(__name__)


def serve(server: FastRagServer, close: Callable[[], None]) -> int:
    """Serve until the client leaves or a signal comes; the exit code. Does not return after a signal."""
    leave = _Leaving(close)
    anyio.run(_run, server, leave)
    leave.now()
    return 0


async def _run(server: FastRagServer, leave: _Leaving) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch_signals, leave)
        await server.run_stdio_async()
        tasks.cancel_scope.cancel()


async def _watch_signals(leave: _Leaving) -> None:
    """The reader thread blocks in read(2) and cannot be cancelled, so a signal ends the process from here."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            log.info("leaving on %s", signal.Signals(number).name)
            leave.now()
            os._exit(0)


class _Leaving:
    """Closes once, in a thread of its own, and waits for it only so long."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close

    def now(self) -> None:
        """Close; return when closed or after CLOSE_SECONDS."""
        thread = threading.Thread(target=self._close, name="close", daemon=True)
        thread.start()
        thread.join(CLOSE_SECONDS)
        if thread.is_alive():
            log.warning("still closing after %s s, leaving anyway", CLOSE_SECONDS)
        sys.stderr.flush()
