"""An agent as a host runs it: the stdio server in a process of its own, spoken to in plain JSON-RPC."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markdown_rag.facade import Json
from tests.waiting import bounded

COMMAND = [sys.executable, "-c", "from markdown_rag.server.guard import main; main()"]
MOST_SECONDS = 180.0  # for an answer; then it is a fault, and no death
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
ROOT = str(Path(__file__).resolve().parents[2])


class Died(Exception):
    """The server's process ended before it answered."""


class StdioAgent:
    """One server process and its client."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self.process: subprocess.Popen[str] = subprocess.Popen(
            COMMAND,
            env={**environ, "PYTHONPATH": ROOT},
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        self._number = 0
        self.request("initialize", **HELLO)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method: str, **params: Any) -> Json:
        self._number += 1
        with bounded(self.process, MOST_SECONDS) as in_time:
            self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
            assert self.process.stdout
            for line in self.process.stdout:
                answer = json.loads(line)
                if answer.get("id") == self._number:
                    found: Json = answer["result"]
                    return found
        assert in_time(), f"{method} was not answered within {MOST_SECONDS:.0f} s"
        raise Died

    def _send(self, message: Json) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Died from error

    def call(self, tool: str, **arguments: Any) -> tuple[Json, bool]:
        """The structured answer, and whether it is an error."""
        result = self.request("tools/call", name=tool, arguments=arguments)
        return result["structuredContent"], bool(result.get("isError"))

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
