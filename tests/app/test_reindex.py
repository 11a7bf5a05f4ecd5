"""What ``reindex.py`` says under a Python that cannot run it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "reindex.py"


def ended(script: Path) -> subprocess.CompletedProcess[str]:
    """The script under a Python without installed packages (-S)."""
    command = [sys.executable, "-S", "-E", str(script), "notes"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_python_without_the_libraries_is_told_in_one_line_what_to_run_instead() -> None:
    done = ended(SCRIPT)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert f"{sys.executable} lacks what reindex.py needs" in done.stderr
    assert "`markdown-fastrag-mcp index`" in done.stderr


@pytest.mark.parametrize("fault", ["import markdown_rag.absent", "from os import absent", "1 / 0"])
def test_a_fault_of_the_package_itself_is_seen_whole(tmp_path: Path, fault: str) -> None:
    shutil.copy(SCRIPT, tmp_path)
    (tmp_path / "markdown_rag").mkdir()
    (tmp_path / "markdown_rag" / "__init__.py").touch()
    (tmp_path / "markdown_rag" / "cli.py").write_text(fault)
    done = ended(tmp_path / SCRIPT.name)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert fault in done.stderr
