"""Whether another process is still there, asked of real processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from markdown_rag.jobs import owner as owners
from markdown_rag.jobs.owner import Owner, Presence, presence, this_process
from tests.waiting import bounded, eventually

TELL = """
import pathlib, sys
from markdown_rag.jobs import owner
owner._PROC = pathlib.Path(sys.argv[1])
o = owner.this_process()
print(o.pid, o.started, flush=True)
input()
"""
NO_PROC = Path("/nowhere")  # as on macOS: ps tells instead
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@pytest.fixture(autouse=True, params=["proc", "ps"])
def told_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where start times come from: every promise holds for both."""
    if request.param == "proc" and not sys.platform.startswith("linux"):
        pytest.skip("there is no /proc")
    if request.param == "ps":
        monkeypatch.setattr(owners, "_PROC", NO_PROC)
    return str(request.param)


@pytest.fixture
def child(told_by: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", TELL, str(NO_PROC if told_by == "ps" else "/proc")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def owner_of(process: subprocess.Popen[str]) -> Owner:
    assert process.stdout is not None
    with bounded(process):
        pid, _, started = process.stdout.readline().strip().partition(" ")
    return replace(this_process(), pid=int(pid), started=started)


def test_a_running_process_is_present(child: subprocess.Popen[str]) -> None:
    assert presence(this_process()) is Presence.PRESENT
    assert presence(owner_of(child)) is Presence.PRESENT


def test_a_killed_process_is_gone(child: subprocess.Popen[str]) -> None:
    owner = owner_of(child)
    child.kill()
    child.wait()
    assert presence(owner) is Presence.GONE


@linux
def test_a_zombie_is_gone(child: subprocess.Popen[str]) -> None:
    owner = owner_of(child)
    child.kill()
    assert child.stdout is not None
    child.stdout.read()  # its end of the pipe closes with it; until wait() it stays a zombie
    eventually(lambda: psutil.Process(child.pid).status(), lambda state: state == psutil.STATUS_ZOMBIE)
    assert presence(owner) is Presence.GONE


def test_a_pid_that_was_given_to_another_process_is_gone(child: subprocess.Popen[str]) -> None:
    owner = owner_of(child)
    assert owner.started
    assert presence(replace(owner, started="another time")) is Presence.GONE


def test_a_process_of_another_boot_or_container_cannot_be_told() -> None:
    assert presence(replace(this_process(), realm="another")) is Presence.UNKNOWN
    assert presence(replace(this_process(), realm="another", pid=2**22 + 1)) is Presence.UNKNOWN


def test_without_a_start_time_a_taken_pid_may_be_anybodys(child: subprocess.Popen[str]) -> None:
    owner = replace(owner_of(child), started="")
    assert presence(owner) is Presence.UNKNOWN
    child.kill()
    child.wait()
    assert presence(owner) is Presence.GONE


@pytest.fixture
def ps(tmp_path: Path, told_by: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a ps that notes each call in ``calls``, and fails while there is a ``broken``."""
    if told_by != "ps":
        pytest.skip("ps is not asked")
    script = tmp_path / "ps"
    script.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/calls\n[ ! -e {tmp_path}/broken ] && exec /bin/ps "$@"\n')
    script.chmod(0o755)
    monkeypatch.setitem(owners._PS_ENVIRONMENT, "PATH", f"{tmp_path}:/bin:/usr/bin")
    return tmp_path


def test_presence_may_be_asked_for_in_a_loop_without_a_process_for_each_time(
    child: subprocess.Popen[str], ps: Path
) -> None:
    owner = owner_of(child)
    assert {presence(owner) for _ in range(300)} == {Presence.PRESENT}
    assert 1 <= len((ps / "calls").read_text().splitlines()) < 100
    child.kill()
    child.wait()
    assert presence(owner) is Presence.GONE


FIRST_PS_FAILS = """
import pathlib, sys, time
from markdown_rag.jobs import owner
folder = pathlib.Path(sys.argv[1])
owner._PROC = pathlib.Path("/nowhere")
owner._PS_ENVIRONMENT["PATH"] = f"{folder}:/bin:/usr/bin"
assert owner.this_process().realm == ""
(folder / "broken").unlink()
end = time.monotonic() + 30
while not owner.this_process().realm and time.monotonic() < end:
    time.sleep(0.1)
assert owner.presence(owner.this_process()) is owner.Presence.PRESENT
"""


def test_a_ps_that_fails_once_does_not_take_a_process_its_identity_for_good(ps: Path) -> None:
    (ps / "broken").touch()
    subprocess.run([sys.executable, "-c", FIRST_PS_FAILS, str(ps)], check=True, timeout=120.0)


def test_two_queues_of_one_process_are_two_owners() -> None:
    one, two = this_process(), this_process()
    assert one != two
    assert replace(one, queue="") == replace(two, queue="")
