"""The judge at the end of every test over an index: what the doctor finds between disk and collection.

Nothing, as a rule. A test that leaves a difference on purpose names its kinds, ``@pytest.mark.ends_with("stale")``:
the doctor finds those and no others, and after one healthy run nothing. A known folder that is in no index is
``not_indexed``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from markdown_rag.clock import StopSignal
from markdown_rag.facade import Facade, IndexCall
from markdown_rag.indexing.audit import Finding, audit
from markdown_rag.wiring import Parts

from .indexing.parts import Bench

Look = Callable[[], "list[tuple[str, str]]"]  # kind and path of everything that is wrong now


def findings(bench: Bench) -> list[Finding]:
    """What the doctor says of a vault."""
    return audit(bench.scope(), bench.chunking, bench.scanning, StopSignal(), store=bench.store, clock=bench.clock)


def ends_well(test: Any, look: Look, healthy_run: Callable[[], object]) -> None:
    """Ask the doctor as the test promises."""
    mark: pytest.Mark | None = test.get_closest_marker("ends_with")
    found = look()
    if mark is None:
        assert not found, found
        return
    assert {kind for kind, _ in found} == set(mark.args), found
    healthy_run()
    assert not (left := look()), left


def benches_end_well(test: Any, benches: Iterable[Bench]) -> None:
    """The same of benches; a healthy run is one of a process that has just started, whose provider answers."""
    benches = list(benches)

    def healthy_run() -> None:
        for bench in benches:
            bench.embedder.before = lambda _: None
            bench.restart()
            bench.run()

    ends_well(test, lambda: [(f.kind.value, f.path) for bench in benches for f in findings(bench)], healthy_run)


def known_folders(parts: Parts) -> list[Path]:
    """The folders that were indexed with a state directory; one that was cleared is none."""
    return [each.root for each in parts.workspaces.all()]


def folders_end_well(test: Any, facade: Facade, folders: Iterable[Path]) -> None:
    """The same of folders that a façade indexed: its own doctor is asked, and its own jobs are the healthy runs."""
    folders = sorted(set(folders))

    def look() -> list[tuple[str, str]]:
        said = [facade.audit(IndexCall(root=str(folder))) for folder in folders]
        strange = [("not_indexed", each["target_path"]) for each in said if not each["ok"] and not each["findings"]]
        return strange + [(finding["kind"], finding["path"]) for each in said for finding in each["findings"]]

    ends_well(test, look, lambda: [run(facade, folder) for folder in folders])


def run(facade: Facade, folder: Path) -> None:
    """Index a folder to the end."""
    job = facade.index(IndexCall(root=str(folder)))["job_id"]
    while (status := facade.status(job, 60.0))["status"] in {"queued", "running"}:
        pass
    assert status["status"] == "succeeded", status
