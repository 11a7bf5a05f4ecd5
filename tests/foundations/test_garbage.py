"""What the collector of cycles costs those who wait for an answer."""

from __future__ import annotations

import json
import subprocess
import sys

LOADED = """
import gc, json
from markdown_rag.processes.garbage import THRESHOLDS
from markdown_rag.store.milvus import library

library()
kept, young = gc.get_freeze_count(), len(gc.get_objects())
library()
print(json.dumps([kept, young, gc.get_freeze_count() - kept, list(gc.get_threshold()) == list(THRESHOLDS)]))
"""


def test_what_a_process_has_loaded_is_not_looked_through_for_garbage_again_and_again() -> None:
    run = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    kept, young, again, rarely = json.loads(run.stdout)
    assert kept > 10 * young
    assert again == 0, "once a process"
    assert rarely
