"""What lies in a data directory for those who look for its engine: where it answers, and its change count."""

from __future__ import annotations

from pathlib import Path

from markdown_rag.processes import endpoint as endpoints

KIND = "markdown-rag engine 1"  # with the protocol; an engine of another one is not used
ENDPOINT_FILE = "engine.json"
CHANGES_FILE = "engine.changes"


def read_endpoint(data_dir: Path) -> endpoints.Endpoint | None:
    """Where the directory's engine says it answers; address is one that gRPC understands."""
    return endpoints.read_endpoint(data_dir / ENDPOINT_FILE, KIND)


def read_changes(data_dir: Path) -> int | None:
    """The directory's change count: grows before every acknowledged write. None before the first engine."""
    try:
        with (data_dir / CHANGES_FILE).open("rb") as file:
            data = file.read(8)
    except OSError:
        return None
    return int.from_bytes(data, "little") if len(data) == 8 else None
