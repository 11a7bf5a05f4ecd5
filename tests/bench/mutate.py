"""Mutation testing by hand: one small change in a module, its tests, and whether they notice.

    python tests/bench/mutate.py [MODULE ...] [--every N]

Works on a copy of the tree. Prints every mutant that survives, and for each module how many of how many were noticed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 180
# The modules that decide what is stored, deleted, found and run, and the tests that have to notice a change in them.
TESTS = {
    "indexing/delta.py": ["tests/indexing/test_delta.py", "tests/indexing/test_indexer.py"],
    "indexing/reconcile.py": ["tests/indexing/test_values.py", "tests/indexing/test_faults.py"],
    "indexing/pipeline.py": [
        "tests/indexing/test_pipeline.py",
        "tests/indexing/test_indexer.py",
        "tests/indexing/test_faults.py",
        "tests/indexing/test_overlap.py",
        "tests/indexing/test_departures.py",
        "tests/app/test_upkeep.py",
    ],
    "indexing/lending.py": ["tests/indexing/test_lending.py"],
    "indexing/vectors.py": ["tests/indexing/test_lending.py", "tests/indexing/test_indexer.py"],
    "store/base.py": ["tests/store/test_parts.py", "tests/store/test_filters.py"],
    "store/filters.py": ["tests/store/test_filters.py", "tests/store/test_contract.py"],
    "store/rows.py": ["tests/store/test_contract.py"],
    "store/columns.py": ["tests/store/test_columns.py", "tests/store/test_contract.py"],
    "jobs/admission.py": ["tests/jobs/test_admission.py"],
    "search/ranking.py": ["tests/search"],
}
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutant:
    line: int
    what: str
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a module, one change each."""
    tree = ast.parse(source)
    annotations = {id(inner) for node in ast.walk(tree) for inner in _annotations(node)}
    count = sum(1 for _ in ast.walk(tree))
    for index in range(count):
        changed = copy.deepcopy(tree)
        node = next(node for number, node in enumerate(ast.walk(changed)) if number == index)
        original = next(node for number, node in enumerate(ast.walk(tree)) if number == index)
        if id(original) in annotations:
            continue
        for what in _mutate(node):
            yield Mutant(getattr(node, "lineno", 0), what, ast.unparse(ast.fix_missing_locations(changed)))


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    """What changes no behaviour: types, and how a dataclass is made."""
    for decorator in getattr(node, "decorator_list", ()):
        yield from ast.walk(decorator)
    for field in ("annotation", "returns"):
        found = getattr(node, field, None)
        if found is not None:
            yield from ast.walk(found)


def _mutate(node: ast.AST) -> Iterator[str]:
    """Change a node in place; what was done. At most one change."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        was = node.ops[0]
        node.ops[0] = SWAPS[type(was)]()  # type: ignore[call-overload]
        yield f"{type(was).__name__} -> {type(node.ops[0]).__name__}"
    elif isinstance(node, ast.BoolOp | ast.BinOp) and type(node.op) in SWAPS:
        was_op = node.op
        node.op = SWAPS[type(was_op)]()  # type: ignore[assignment]
        yield f"{type(was_op).__name__} -> {type(node.op).__name__}"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node.op = ast.UAdd()
        node.operand = ast.Call(ast.Name("bool", ast.Load()), [node.operand], [])
        yield "not dropped"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
        yield f"constant -> {node.value}"
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        node.value += 1
        yield f"constant -> {node.value}"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        what = ast.unparse(node.value)[:60]
        node.value = ast.Constant(None)
        yield f"call dropped: {what}"
    elif isinstance(node, ast.Continue | ast.Break):
        yield from ()


def is_noticed(copy_root: Path, tests: list[str]) -> bool:
    """Whether the tests fail."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
    environ = {**os.environ, "HYPOTHESIS_MAX_EXAMPLES": "20"}
    try:
        done = subprocess.run(
            command, cwd=copy_root, env=environ, capture_output=True, timeout=SECONDS, check=False, text=True
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def run_module(copy_root: Path, module: str, every: int) -> tuple[int, int]:
    path = copy_root / "markdown_rag" / module
    source = path.read_text()
    tests = TESTS[module]
    if is_noticed(copy_root, tests):
        raise SystemExit(f"{module}: its tests fail without any change")
    noticed = total = 0
    try:
        for number, mutant in enumerate(mutants(source)):
            if number % every:
                continue
            path.write_text(mutant.source)
            total += 1
            if is_noticed(copy_root, tests):
                noticed += 1
            else:
                print(f"survived  {module}:{mutant.line}  {mutant.what}", flush=True)
    finally:
        path.write_text(source)
    return noticed, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", choices=[[], *TESTS], default=[])
    parser.add_argument("--every", type=int, default=1, help="only every Nth mutant")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutate-") as directory:
        copy_root = Path(directory) / "tree"
        ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".hypothesis", "*_cache")
        shutil.copytree(ROOT, copy_root, ignore=ignored)
        for module in options.modules or TESTS:
            noticed, total = run_module(copy_root, module, options.every)
            print(f"{module}: {noticed} of {total} noticed", flush=True)


if __name__ == "__main__":
    main()
