"""The console script's first steps: keep standard output for the protocol before anything else can write to it.

While this process serves stdio, file descriptor 1 means stderr, from before the first other import until the process
ends; the protocol goes out through a private duplicate that only ``sys.stdout.buffer`` of the transport holds (I9).
Shell commands keep their standard output: it is their product. Nothing but ``os`` and ``sys`` is imported here.
"""

from __future__ import annotations

import os
import sys

SERVE = "serve"
INTERRUPTED = 130

_KEPT: list[object] = []  # the wire's stream: collected as garbage, it would close the buffer the transport writes to


def main() -> None:
    """Run the command line; with no arguments, the stdio server."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] == SERVE:
        divert_stdout()
    try:
        # By name: the command line stands above this package, and must not be imported before fd 1 is safe.
        module = __import__("importlib").import_module("markdown_rag.cli")
        code = module.run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    except KeyboardInterrupt:  # before the command line could catch it
        code = INTERRUPTED
    # Worker threads of libraries are not daemons: joining them would hold the process (5 s seen).
    os._exit(code)


def divert_stdout() -> None:
    """Point fd 1 at stderr and leave the wire to ``sys.stdout``; safe when a descriptor is missing."""
    try:
        wire = duplicate_above_standard(1)
    except OSError:
        return
    try:
        os.dup2(2, 1)
    except OSError:
        _to_null(1)
    stream = os.fdopen(wire, "w", encoding="utf-8", newline="\n", closefd=False)
    sys.stdout = stream
    _KEPT.append(stream)


def duplicate_above_standard(descriptor: int) -> int:
    """A duplicate that is not 0, 1 or 2 and that children do not inherit."""
    import fcntl  # noqa: PLC0415 - not on every platform, and only needed here

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


def _to_null(descriptor: int) -> None:
    """Point a descriptor at the null device (stderr was closed by who started us)."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
