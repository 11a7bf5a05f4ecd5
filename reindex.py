"""Rebuild an index from a shell: ``python reindex.py [path] [--force] [--no-recursive] [--dry-run]``.

The same as ``markdown-fastrag-mcp index``; kept under the name that scripts use.
"""

import os
import sys

from markdown_rag.cli import run

if __name__ == "__main__":
    code = run(["index", *sys.argv[1:]])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
