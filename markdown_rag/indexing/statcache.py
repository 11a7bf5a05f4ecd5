"""What this machine remembers between index runs. All of it can be lost: the next run reads files again, no more.

*Stats*: under which stamp a file had which hash, and why a file has no rows. *Intents*: generations that a run was
about to write; what is left of one after a crash is removed by the next run. *Sweeps*: whether the rows of a workspace
were once looked through for such remains, which is needed only when intents may have been lost. *Departures*: which
files left the index.

A state file that fails is no error of a run: reads answer "nothing known", writes are dropped, ``trouble`` says why.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from markdown_rag.database import Database
from markdown_rag.errors import StateError
from markdown_rag.indexing import departures
from markdown_rag.indexing.departures import Departure
from markdown_rag.indexing.reading import NotRead, Stamp
from markdown_rag.indexing.report import ProblemKind
from markdown_rag.paths import Scope

MIGRATIONS = (
    """
    CREATE TABLE stats (
        workspace TEXT NOT NULL, path TEXT NOT NULL,
        size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
        taken_ns INTEGER NOT NULL, file_hash TEXT NOT NULL, policy TEXT NOT NULL,
        skip_kind TEXT NOT NULL, skip_reason TEXT NOT NULL,
        PRIMARY KEY (workspace, path)
    ) WITHOUT ROWID;
    CREATE TABLE intents (
        workspace TEXT NOT NULL, collection TEXT NOT NULL, path TEXT NOT NULL,
        gen INTEGER NOT NULL, rows INTEGER NOT NULL,
        PRIMARY KEY (workspace, collection, path, gen)
    ) WITHOUT ROWID;
    CREATE TABLE sweeps (
        workspace TEXT NOT NULL, collection TEXT NOT NULL, PRIMARY KEY (workspace, collection)
    ) WITHOUT ROWID
    """,
    "ALTER TABLE intents ADD COLUMN run TEXT NOT NULL DEFAULT ''",
    departures.TABLE,
)

RACY_NS = 2_000_000_000  # FAT keeps even seconds; nothing in use is coarser (I6, git's racy-git.adoc)
_IN_SCOPE = "workspace = ? AND (? = '' OR path = ? OR (path >= ? AND path < ?))"
_LOAD = (
    "SELECT path, size, mtime_ns, ctime_ns, inode, taken_ns, file_hash, policy, skip_kind, skip_reason"  # noqa: S608
    f" FROM stats WHERE {_IN_SCOPE}"
)
_UNFINISHED = f"SELECT path, gen, rows, run FROM intents WHERE {_IN_SCOPE} AND collection = ?"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Noted:
    """What is known of a file from its last reading.

    taken_ns: wall clock of the reading. skip: why its bytes have no rows under this chunking policy, None if they have.
    """

    stamp: Stamp
    taken_ns: int
    file_hash: str
    policy: str
    skip: NotRead | None = None

    def proves(self, stamp: Stamp) -> bool:
        """Whether a stamp seen now proves the content unchanged; one recorded too soon after a change does not (I6)."""
        return stamp == self.stamp and self.taken_ns - max(stamp.mtime_ns, stamp.ctime_ns) >= RACY_NS


@dataclass(frozen=True, slots=True)
class Intent:
    """A generation about to be written: rows is its chunk count, run the mark of who writes it."""

    path: str
    gen: int
    rows: int
    run: str = ""


class StatCache:
    """Stats, intents and sweeps in one SQLite file. Thread-safe. Whatever becomes of the file, nothing is raised.

    What is to be noted must fit: paths are valid Unicode, numbers have 64 bits; ValueError and OverflowError otherwise.
    place: of the store. Two stores may have collections of the same name; stats are of files and good for all.
    """

    def __init__(self, database: Database, place: str = "") -> None:
        self._database = database
        self._place = place
        self._trouble = ""

    def load(self, scope: Scope) -> dict[str, Noted]:
        """What is known of the files at or under the scope's path."""
        noted = {}
        with self._tolerant(), self._database.read() as connection:
            for path, *stamp, taken_ns, file_hash, policy, kind, why in connection.execute(_LOAD, _scope_values(scope)):
                with contextlib.suppress(ValueError):  # a kind of another version's: the file is read again
                    skip = NotRead(ProblemKind(kind), why) if kind else None
                    noted[path] = Noted(Stamp(*stamp), taken_ns, file_hash, policy, skip)
        return noted

    def note(
        self, workspace: str, items: Mapping[str, Noted], finished: Iterable[Intent] = (), collection: str = ""
    ) -> None:
        """Remember files by path, and that these intents were carried out, in one transaction."""
        with self._tolerant(), self._database.write() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO stats VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    (workspace, path, *n.stamp, n.taken_ns, n.file_hash, n.policy, *_skip_values(n.skip))
                    for path, n in items.items()
                ),
            )
            connection.executemany(
                "DELETE FROM intents WHERE workspace = ? AND collection = ? AND path = ? AND gen = ?",
                ((workspace, self._placed(collection), i.path, i.gen) for i in finished),
            )

    def forget(self, workspace: str, paths: Iterable[str]) -> None:
        """Drop files that are gone."""
        with self._tolerant(), self._database.write() as connection:
            connection.executemany(
                "DELETE FROM stats WHERE workspace = ? AND path = ?", ((workspace, path) for path in paths)
            )

    def forget_workspace(self, workspace: str) -> None:
        """Drop all that is known of a workspace: it was cleared."""
        with self._tolerant(), self._database.write() as connection:
            for table in ("stats", "intents", "sweeps", "departures"):
                connection.execute(f"DELETE FROM {table} WHERE workspace = ?", (workspace,))  # noqa: S608 - a constant

    def intend(self, workspace: str, collection: str, intents: Iterable[Intent]) -> None:
        """Record generations before their first row is written."""
        with self._tolerant(), self._database.write() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO intents VALUES (?, ?, ?, ?, ?, ?)",
                ((workspace, self._placed(collection), i.path, i.gen, i.rows, i.run) for i in intents),
            )

    def unfinished(self, scope: Scope, collection: str) -> list[Intent]:
        """Intents of the scope that no run has reported as carried out."""
        with self._tolerant(), self._database.read() as connection:
            values = (*_scope_values(scope), self._placed(collection))
            return [Intent(*row) for row in connection.execute(_UNFINISHED, values)]
        return []

    def is_swept(self, workspace: str, collection: str) -> bool:
        """Whether a whole workspace was looked through for remains since this file exists."""
        with self._tolerant(), self._database.read() as connection:
            query = "SELECT 1 FROM sweeps WHERE workspace = ? AND collection = ?"
            return connection.execute(query, (workspace, self._placed(collection))).fetchone() is not None
        return False

    def mark_swept(self, workspace: str, collection: str) -> None:
        """Record that a whole workspace was looked through."""
        with self._tolerant(), self._database.write() as connection:
            connection.execute("INSERT OR REPLACE INTO sweeps VALUES (?, ?)", (workspace, self._placed(collection)))

    def depart(self, left: Iterable[Departure]) -> None:
        """Remember files that leave the index."""
        with self._tolerant(), self._database.write() as connection:
            departures.keep(connection, left)

    def departed(self, digest: str) -> Departure | None:
        """The file that left the index under this digest (paths.file_digest)."""
        with self._tolerant(), self._database.read() as connection:
            return departures.find(connection, digest)
        return None

    def take_trouble(self) -> str:
        """Why the state file failed since the last call, "" if it did not."""
        trouble, self._trouble = self._trouble, ""
        return trouble

    def _placed(self, collection: str) -> str:
        return f"{self._place} {collection}"

    def _tolerant(self) -> _Tolerance:
        return _Tolerance(self)

    def _fail(self, error: StateError) -> None:
        self._trouble = str(error)


class _Tolerance:
    """Ends a StateError and keeps its words."""

    def __init__(self, cache: StatCache) -> None:
        self._cache = cache

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, StateError):
            self._cache._fail(error)  # noqa: SLF001 - one class in two halves
            return True
        return False


def _scope_values(scope: Scope) -> tuple[str, str, str, str, str]:
    # "0" follows "/" in ASCII: the half-open range holds exactly what lies under the folder.
    return scope.workspace.id, scope.path, scope.path, scope.path + "/", scope.path + "0"


def _skip_values(skip: NotRead | None) -> tuple[str, str]:
    return (skip.kind.value, skip.reason) if skip else ("", "")
