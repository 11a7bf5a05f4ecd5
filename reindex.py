"""Rebuild an index from a shell: ``python reindex.py [path] [--force] [--no-recursive] [--dry-run]``.

The same as ``markdown-fastrag-mcp index``; kept under the name that scripts use.
"""

import os
import sys
from importlib.metadata import PackageNotFoundError, distribution

NAME = "markdown-fastrag-mcp"
USAGE = 2


def is_installed() -> bool:
    """Whether this Python has the package, and with it the libraries that it needs."""
    try:
        distribution(NAME)
    except PackageNotFoundError:
        return False
    return True


try:
    from markdown_rag.cli import run
except ModuleNotFoundError as error:
    # A module of the package itself, or any in a Python that has it installed, is a fault to be seen whole.
    if (error.name or "").startswith("markdown_rag.") or is_installed():
        raise
    sys.stderr.write(
        f"{sys.executable} lacks what reindex.py needs ({error.name}): run `{NAME} index` instead, or, in a clone "
        "after `make demo`, `.venv/bin/python reindex.py`.\n"
    )
    sys.exit(USAGE)

if __name__ == "__main__":
    code = run(["index", *sys.argv[1:]])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
