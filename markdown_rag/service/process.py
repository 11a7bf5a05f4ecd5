"""The service's process: ``python -m markdown_rag.service.process``, started by ``launcher``, nobody's child.

It takes its life lock, opens its sockets, publishes its endpoint and serves until nobody needs it: no client connected
and no job of its own for the idle time, or told to leave. Jobs that still run then are left to the next one, which
goes on with them under their ids.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
from dataclasses import asdict
from pathlib import Path

from markdown_rag.errors import FastRagError
from markdown_rag.jobs.owner import this_process
from markdown_rag.precedence import take_short_turns
from markdown_rag.processes.detaching import Reporter, RotatingLog, detach
from markdown_rag.processes.starting import try_lock
from markdown_rag.service.identity import Identity

log = logging.getLogger("markdown_rag.service")


def main(arguments: list[str] | None = None) -> int:
    """Serve until nobody needs it. Exit code 0; 3 if it cannot serve."""
    options = _options(arguments)
    if not detach():
        return 0
    reporter = Reporter(options.ready_fd)
    reporter.say(pid=os.getpid())
    take_short_turns()  # answers are Python too: the loop does not wait for a search
    logging.basicConfig(level=logging.INFO, handlers=[RotatingLog(options.log)])
    # Not before the launcher has its answer that this process exists: it takes half a second.
    from markdown_rag.service.serving import Service  # noqa: PLC0415

    identity = Identity(options.folder, options.fingerprint, options.version)
    try:
        life = _take_life(identity)
        if life is None:
            reporter.say(busy=True)
            return 3
        service = Service(identity, os.environ, life, loopback=options.loopback)
    except (FastRagError, OSError) as error:
        log.exception("cannot serve")
        reporter.say(error=type(error).__name__, message=str(error))
        return 3
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.leave())
    reporter.say(ready=True)
    reporter.close()
    service.serve()
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="markdown_rag.service.process")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--fingerprint", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--ready-fd", type=int, default=-1)
    parser.add_argument("--loopback", action="store_true")
    return parser.parse_args(arguments)


def _take_life(identity: Identity) -> int | None:
    """Lock the life file and write our name into it; None if it is held.

    The lock is kept, under the handle returned, until this process ends. Raises OSError.
    """
    handle = os.open(identity.life_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not try_lock(handle):
        os.close(handle)
        return None
    os.ftruncate(handle, 0)
    os.write(handle, json.dumps(asdict(this_process())).encode())
    return handle


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    # Worker threads of libraries are not daemons: joining them would hold the process.
    os._exit(code)
