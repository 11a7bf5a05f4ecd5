"""What a user can rely on about the state files: losing or damaging one costs work, never an answer."""

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from markdown_rag.database import Database
from markdown_rag.errors import StateError
from tests.waiting import eventually, joined

FIRST = ("CREATE TABLE notes (name TEXT PRIMARY KEY)",)
SECOND = (*FIRST, "ALTER TABLE notes ADD COLUMN size INTEGER; CREATE INDEX by_size ON notes (size)")


def names(database: Database) -> list[str]:
    with database.read() as connection:
        return [name for (name,) in connection.execute("SELECT name FROM notes ORDER BY name")]


def add(database: Database, name: str) -> None:
    with database.write() as connection:
        connection.execute("INSERT INTO notes (name) VALUES (?)", (name,))


def test_what_was_written_is_there_after_reopening_and_migrating(tmp_path: Path) -> None:
    database = Database(tmp_path / "x.sqlite3", FIRST)
    add(database, "a")
    database.close()
    database = Database(tmp_path / "x.sqlite3", SECOND)
    assert names(database) == ["a"]
    database.close()


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path / "x.sqlite3", FIRST)

    def half() -> None:
        with database.write() as connection:
            connection.execute("INSERT INTO notes (name) VALUES ('half')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    add(database, "once")
    with pytest.raises(StateError, match="UNIQUE"):
        add(database, "once")
    assert names(database) == ["once"]
    database.close()


@pytest.mark.parametrize("damage", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_set_aside_and_made_anew(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "x.sqlite3"
    path.write_bytes(damage)
    database = Database(path, FIRST)
    add(database, "works")
    assert names(database) == ["works"]
    database.close()
    assert [p.read_bytes() for p in tmp_path.glob("x.sqlite3.damaged-*")] == [damage]


def test_a_file_damaged_while_it_is_open_is_replaced_for_everybody(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite3"
    database = Database(path, FIRST)
    add(database, "lost")
    with database.read() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path.write_bytes(b"\xff" * 8192)
    other = Database(path, FIRST)  # notices, sets it aside
    add(other, "after")
    assert names(database) == ["after"]  # and the first one follows to the new file
    database.close()
    other.close()


def test_a_file_deleted_while_it_is_open_is_made_anew(tmp_path: Path) -> None:
    database = Database(tmp_path / "x.sqlite3", FIRST)
    add(database, "lost")
    for path in tmp_path.iterdir():
        path.unlink()
    add(database, "after")
    assert names(database) == ["after"]
    database.close()


def test_a_folder_that_is_deleted_or_moved_does_not_come_back_and_every_use_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "state"
    folder.mkdir(parents=True)
    database = Database(folder / "x.sqlite3", FIRST)
    add(database, "kept")
    (tmp_path / "deep").rename(tmp_path / "moved")
    for use in (lambda: add(database, "after"), lambda: names(database)):
        with pytest.raises(StateError, match=r"state is not there: it was deleted or moved.*Start this program again"):
            use()
    with pytest.raises(StateError, match="not there"):
        Database(folder / "y.sqlite3", FIRST)
    database.close()
    assert [path.name for path in tmp_path.iterdir()] == ["moved"]
    again = Database(tmp_path / "moved" / "state" / "x.sqlite3", FIRST)
    assert names(again) == ["kept"]
    again.close()


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    Database(tmp_path / "x.sqlite3", SECOND).close()
    with pytest.raises(StateError, match="newer version"):
        Database(tmp_path / "x.sqlite3", FIRST)
    assert not list(tmp_path.glob("*damaged*"))


def test_a_folder_that_cannot_be_made_is_named_with_the_variable_to_change(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StateError, match="MARKDOWN_RAG_CACHE_DIR"):
        Database(tmp_path / "file" / "x.sqlite3", FIRST)


def test_many_threads_write_without_losing_a_row(tmp_path: Path) -> None:
    database = Database(tmp_path / "x.sqlite3", FIRST)
    threads = [threading.Thread(target=add, args=(database, f"{n:02}")) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names(database) == [f"{n:02}" for n in range(16)]
    database.close()


def test_a_second_process_sees_what_the_first_wrote(tmp_path: Path) -> None:
    database = Database(tmp_path / "x.sqlite3", FIRST)
    add(database, "a")
    other = sqlite3.connect(tmp_path / "x.sqlite3")
    assert other.execute("SELECT name FROM notes").fetchall() == [("a",)]
    other.close()
    database.close()


def test_processes_that_open_a_new_file_at_once_all_can_use_it(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from markdown_rag.database import Database\n"
        "for line in sys.stdin:\n"
        "    try: Database(Path(line.strip()), ['CREATE TABLE notes (name TEXT PRIMARY KEY)']).close(); said = 'ok'\n"
        "    except Exception as error: said = error\n"
        "    print(said, flush=True)\n"
    )
    command = [sys.executable, "-c", code]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) for _ in range(6)
    ]
    said = set()
    for number in range(60):
        for process in started:
            process.stdin.write(f"{tmp_path / str(number)}\n")
        said |= {process.stdout.readline().strip() for process in started}
    for process in started:
        process.communicate(timeout=20)
    assert said == {"ok"}


def test_a_closed_database_says_so(tmp_path: Path) -> None:
    database = Database(tmp_path / "x.sqlite3", FIRST)
    database.close()
    database.close()
    with pytest.raises(StateError, match="closed"):
        names(database)


def test_closing_while_other_threads_read_and_write_ends_them_with_our_error_and_nothing_worse(tmp_path: Path) -> None:
    for round_ in range(5):
        database = Database(tmp_path / f"{round_}.sqlite3", FIRST)
        ready, seen = threading.Barrier(5), list[str]()

        def use(database: Database = database, ready: threading.Barrier = ready, seen: list[str] = seen) -> None:
            ready.wait()
            try:
                for number in range(100_000):
                    add(database, f"{threading.get_ident()}-{number}")
                    names(database)
            except StateError as error:
                seen.append(str(error))

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        ready.wait()
        database.close()
        for thread in threads:
            thread.join()
        assert len(seen) == 4


def test_a_file_removed_again_and_again_under_many_threads_costs_rows_and_nothing_worse(tmp_path: Path) -> None:
    database = Database(tmp_path / "x.sqlite3", FIRST)
    done, faults = threading.Event(), list[BaseException]()

    def use() -> None:
        number = 0
        while not done.is_set():
            number += 1
            try:
                add(database, f"{threading.get_ident()}-{number}")
            except StateError:
                pass  # the file went away under the statement
            except BaseException as error:
                faults.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        for suffix in ("-wal", "-shm", ""):
            (tmp_path / f"x.sqlite3{suffix}").unlink(missing_ok=True)
    done.set()
    for thread in threads:
        thread.join()
    assert not faults
    add(database, "after")
    assert "after" in names(database)
    database.close()


def test_threads_that_have_ended_leave_no_file_open(tmp_path: Path) -> None:
    database = Database(tmp_path / "x.sqlite3", FIRST)

    def opened() -> int:
        """Files of the database; the process may hold any others."""
        return sum(file.path.startswith(str(tmp_path)) for file in psutil.Process().open_files())

    def one() -> int:
        thread = threading.Thread(target=add, args=(database, f"{len(names(database))}"))
        thread.start()
        joined(thread)
        return opened()

    settled = [one() for _ in range(3)][-1]
    assert settled > 0
    for _ in range(30):
        one()
    eventually(opened, lambda count: count <= settled)
    database.close()
