"""Who goes first in a process that answers and indexes at once."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from markdown_rag.clock import ManualClock, SystemClock
from markdown_rag.precedence import MOST_SECONDS, PRECEDENCE, TURN_SECONDS, Precedence, goes_first


def test_a_step_waits_for_nobody_where_nobody_asks() -> None:
    precedence = Precedence(SystemClock())
    assert precedence.give_way()
    with precedence.question(), precedence.question():
        pass
    assert precedence.give_way(), "every question has been answered"


def test_a_step_waits_while_somebody_asks_and_goes_on_all_the_same() -> None:
    precedence = Precedence(SystemClock())
    with precedence.question():
        with precedence.question():
            assert not precedence.give_way()
        assert not precedence.give_way(), "one question is still open"


def test_a_step_goes_on_as_soon_as_the_answer_is_there() -> None:
    precedence = Precedence(SystemClock())
    asked, answered = threading.Event(), threading.Event()

    def ask() -> None:
        with precedence.question():
            asked.set()
            answered.wait()

    thread = threading.Thread(target=ask)
    thread.start()
    asked.wait()
    assert not precedence.give_way()
    answered.set()
    thread.join()
    assert precedence.give_way()


def test_a_question_that_fails_holds_nobody_up() -> None:
    precedence = Precedence(SystemClock())
    with contextlib.suppress(ZeroDivisionError), precedence.question():
        _ = 1 // 0
    assert precedence.give_way()


def test_under_questions_without_end_steps_have_their_turns() -> None:
    clock = ManualClock()
    precedence = Precedence(clock)
    with precedence.question():
        waited = []
        for _ in range(3):
            started = clock.monotonic()
            assert not precedence.give_way()
            waited.append(clock.monotonic() - started)
            clock.advance(TURN_SECONDS * 0.6)
    assert waited == pytest.approx([MOST_SECONDS, 0.0, MOST_SECONDS])


def test_what_takes_several_questions_is_not_interrupted_between_two_of_them() -> None:
    clock = ManualClock()
    precedence = Precedence(clock, linger=0.01)
    assert precedence.give_way(), "nobody has asked yet"
    with precedence.question():
        pass
    started = clock.monotonic()
    assert precedence.give_way()
    assert clock.monotonic() - started == pytest.approx(0.01)
    assert precedence.give_way()
    assert clock.monotonic() - started == pytest.approx(0.01), "nobody came"


FOLLOWER = """
import sys
from markdown_rag.precedence import Sign

sign = Sign(int(sys.argv[1]))
for line in sys.stdin:
    print(sign.give_way(), flush=True)
"""


@pytest.fixture
def follower():
    """Asks another process, which follows our sign, to give way; whether nobody asked."""
    precedence = Precedence(SystemClock())
    fd = precedence.sign().fd
    with subprocess.Popen(
        [sys.executable, "-c", FOLLOWER, str(fd)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[fd],
        text=True,
    ) as process:

        def give_way() -> bool:
            process.stdin.write("\n")
            process.stdin.flush()
            return process.stdout.readline() == "True\n"

        yield precedence, give_way
        process.stdin.close()


def test_another_process_gives_way_too_and_has_its_turns(follower) -> None:
    precedence, give_way = follower
    assert give_way()
    with precedence.question():
        began = time.monotonic()
        assert not give_way()
        assert time.monotonic() - began > MOST_SECONDS
        began = time.monotonic()
        turns = 0
        while time.monotonic() - began < TURN_SECONDS / 2:
            turns += not give_way()
        assert turns > 1, "it goes on for a while before it waits again"
    assert give_way()


def test_a_sign_that_is_made_while_somebody_asks_says_so() -> None:
    precedence = Precedence(SystemClock())
    with precedence.question():
        assert not precedence.sign().give_way()
    assert precedence.sign().give_way()


def test_what_answers_somebody_goes_first_also_where_it_fails() -> None:
    asked = []

    @goes_first
    def answer(text: str) -> str:
        asked.append(PRECEDENCE.give_way())
        return text.upper()

    assert answer("a") == "A"
    with pytest.raises(AttributeError):
        answer(None)
    assert asked == [False, False]
    assert PRECEDENCE.give_way()


FULL = """
mount -t tmpfs -o size=16k tmpfs "$TMPDIR" || exit 77
exec "$0" -c '
import os, tempfile
place = tempfile.gettempdir()  # as a service has asked long ago (processes/sockets.py), while there was room
try:
    with open(os.path.join(place, "fill"), "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
except OSError:
    pass
from markdown_rag.precedence import PRECEDENCE
try:
    PRECEDENCE.sign()
except OSError:
    print("said")
else:
    print("made")
'
"""


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="mounts a small disk")
def test_a_full_disk_does_not_end_the_process_that_makes_a_sign(tmp_path: Path) -> None:
    run = subprocess.run(
        ["unshare", "-m", "sh", "-c", FULL, sys.executable],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode == 77:
        pytest.skip("no mounting here")
    assert run.returncode == 0, f"ended by {run.returncode} (135 and -7 are SIGBUS): {run.stderr}"
    assert run.stdout.strip() in {"said", "made"}
