"""What every test stands on: a home of its own, none of our variables set, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from markdown_rag.settings import describe
from tests import leftovers
from tests.standalone import ADDRESS_VARIABLE, Standalone, standalone
from tests.waiting import SECONDS, eventually

# A slow machine is no failure; in CI the same examples come every time, so that a red run can be repeated.
settings.register_profile(
    "project",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("project")

BUDGET_VARIABLE = "MARKDOWN_RAG_TEST_SECONDS"  # after so many seconds slow and server tests are skipped, and say so
LEAVING_SECONDS = 30.0  # engines and services leave some seconds after their last client
_STARTED = time.monotonic()
SHARED_VARIABLE = "MARKDOWN_RAG_TEST_SHARED"


@pytest.fixture(autouse=True)
def isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A throw-away home and state directory; of the variables this package reads only those that keep it there.

    Everything runs in the process under test; the tests of the service start theirs, and see to its end.
    """
    home = tmp_path_factory.mktemp("home")
    for variable in describe():
        monkeypatch.delenv(variable.name, raising=False)
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MARKDOWN_RAG_CACHE_DIR", str(home / "state"))
    monkeypatch.setenv("MARKDOWN_RAG_SERVICE", "off")
    return home


@pytest.fixture
def state_dir(isolated: Path) -> Path:
    """The state directory that MARKDOWN_RAG_CACHE_DIR names, made."""
    directory = isolated / "state"
    directory.mkdir()
    return directory


@pytest.fixture
def no_more_threads() -> Iterator[Callable[[], contextlib.AbstractContextManager[None]]]:
    """While the context is open the system refuses this process every new thread: each asks for too large a stack."""

    @contextlib.contextmanager
    def refused() -> Iterator[None]:
        usual = threading.stack_size(2**46)
        try:
            yield
        finally:
            threading.stack_size(usual)

    yield refused
    threading.stack_size(0)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The directory of vaults, question sets and corpora; the test is skipped without it."""
    given = os.environ.get(SHARED_VARIABLE, "")
    if not given or not Path(given).is_dir():
        pytest.skip(f"{SHARED_VARIABLE} names no directory")
    return Path(given).resolve()


@pytest.fixture(scope="session")
def milvus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A real Milvus Standalone that lasts for the whole run; started when the first test asks for it."""
    with standalone(tmp_path_factory.mktemp("milvus")) as server:
        yield server


@pytest.fixture(scope="session")
def milvus_server(request: pytest.FixtureRequest) -> str:
    """The address of a real Milvus: one that runs already, else that of this run."""
    running = os.environ.get(ADDRESS_VARIABLE, "")
    return running or request.getfixturevalue("milvus").address


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test whose threads outlive it.

    Threads started by fixtures of a wider scope are there before and after, and do not count.
    """
    before = set(threading.enumerate())
    yield
    left = _outliving(before)
    assert not left, f"{request.node.nodeid} left threads running: {left}"


def _outliving(before: set[threading.Thread]) -> list[str]:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        extra = [t for t in threading.enumerate() if t not in before and not t.daemon and t.is_alive()]
        if not extra:
            return []
        extra[0].join(timeout=0.2)
    return [thread.name for thread in extra]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what is left of the marked tests once their time is used up: a slow machine shows less, not red."""
    budget = float(os.environ.get(BUDGET_VARIABLE, "inf"))
    if time.monotonic() - _STARTED > budget and any(item.get_closest_marker(mark) for mark in ("slow", "server")):
        pytest.skip(f"{BUDGET_VARIABLE}={budget:.0f} is used up")


def pytest_sessionstart(session: pytest.Session) -> None:
    if not _is_worker(session):  # a worker inherits it
        os.environ[leftovers.MARK] = uuid.uuid4().hex


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Fail a run that leaves processes behind; of several workers once all have ended."""
    yield
    if _is_worker(session):
        return
    base: Path = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    mark = os.environ[leftovers.MARK]
    try:
        eventually(
            lambda: leftovers.left_over(base, mark),
            lambda left: not left,
            seconds=LEAVING_SECONDS,
            what="left running after the tests",
        )
    except AssertionError as error:
        print(f"\n{error}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _is_worker(session: pytest.Session) -> bool:
    """Whether pytest-xdist started this process for a part of the run."""
    return hasattr(session.config, "workerinput")
