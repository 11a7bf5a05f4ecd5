"""All jobs of all processes of a state directory, in one SQLite file; one transaction for each change.

The ledger does what the pure parts decide: it reads the active jobs, ends those that nobody works on any more, asks
``admission`` or a transition of ``job``, and writes the answer, all while no other process can write. It holds nothing
that cannot be lost: without it the next run looks at every file again, and that is all.
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from markdown_rag.database import Database
from markdown_rag.jobs import job as transitions
from markdown_rag.jobs.admission import Decision, FollowUp, Join, Limits, Refuse, Repeated, decide, startable
from markdown_rag.jobs.job import Job
from markdown_rag.jobs.lease import MOST_ADOPTIONS, Estate, Verdict, inherit, judge
from markdown_rag.jobs.owner import Owner, Presence, presence
from markdown_rag.jobs.rows import COLUMNS, from_row, to_row
from markdown_rag.oneline import one_line
from markdown_rag.paths import printable

FILE_NAME = "jobs.db"
MIGRATIONS = (
    """
    CREATE TABLE job (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        request TEXT NOT NULL,
        owner TEXT NOT NULL,
        status TEXT NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        lease_until REAL NOT NULL,
        started_at REAL,
        finished_at REAL,
        suspected INTEGER NOT NULL,
        progress TEXT NOT NULL,
        joined INTEGER NOT NULL,
        follows TEXT NOT NULL,
        cancel TEXT NOT NULL,
        note TEXT NOT NULL,
        error TEXT NOT NULL,
        resumable INTEGER NOT NULL,
        result TEXT
    );
    CREATE INDEX job_active ON job (number) WHERE finished_at IS NULL;
    CREATE INDEX job_finished ON job (finished_at) WHERE finished_at IS NOT NULL
    """,
    """
    ALTER TABLE job ADD COLUMN adoptions INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE asked (request_id TEXT PRIMARY KEY, job_id TEXT NOT NULL, asked_at REAL NOT NULL)
    """,
)
log = logging.getLogger(__name__)

_SELECT = f"SELECT {', '.join(COLUMNS)} FROM job"  # noqa: S608 - our own column names
_ACTIVE = f"{_SELECT} WHERE finished_at IS NULL ORDER BY number"
_ASKED = f"{_SELECT} WHERE id = (SELECT job_id FROM asked WHERE request_id = ?)"  # noqa: S608 - the same
_VALUES = ", ".join("?" for _ in COLUMNS)
_WRITE = f"INSERT OR REPLACE INTO job ({', '.join(COLUMNS)}) VALUES ({_VALUES})"  # noqa: S608 - the same


def open_ledger(state_directory: Path) -> Ledger:
    """The ledger of a state directory, made if it is missing. Raises StateError."""
    return Ledger(Database(state_directory / FILE_NAME, MIGRATIONS))


class Ledger:
    """The shared record of jobs. Thread-safe; every method may raise StateError.

    look: how to tell whether an owner's process is still there.
    """

    def __init__(self, database: Database, look: Callable[[Owner], Presence] = presence) -> None:
        self._database = database
        self._look = look

    def submit(
        self, request: transitions.IndexRequest, owner: Owner, limits: Limits, now: float, request_id: str = ""
    ) -> Submitted:
        """Decide on a request and carry the decision out: the decision, and the job it led to (None: refused).

        request_id: the same for a request that is repeated because its answer was lost; it leads to the same job,
        whatever has become of it, and nothing is decided again.
        """
        with self._database.write() as connection:
            if request_id and (asked := _one(connection, _ASKED, request_id)) is not None:
                # A request that made its job was noted in the same moment.
                query = "SELECT asked_at FROM asked WHERE request_id = ?"
                (asked_at,) = connection.execute(query, (request_id,)).fetchone()
                return Repeated(asked.id, joined=asked_at != asked.created_at), asked
            decision, job = self._decide(connection, request, owner, limits, now)
            if request_id and job is not None:
                connection.execute("INSERT INTO asked VALUES (?, ?, ?)", (request_id, job.id, now))
            return decision, job

    def _decide(
        self,
        connection: sqlite3.Connection,
        request: transitions.IndexRequest,
        owner: Owner,
        limits: Limits,
        now: float,
    ) -> Submitted:
        active = self._settle(connection, owner, now)
        decision = decide(request, active, limits)
        if isinstance(decision, Refuse):
            return decision, None
        if isinstance(decision, Join):
            waiting = next(job for job in active if job.id == decision.job_id)
            return decision, _write(connection, transitions.join(waiting, decision.request))
        follows = decision.after if isinstance(decision, FollowUp) else ""
        job = transitions.accept(
            request, owner, now, follows=follows, job_id=_new_id(connection), number=_next_number(connection)
        )
        return decision, _write(connection, job)

    def claim(self, owner: Owner, running_limit: int, now: float) -> list[Job]:
        """Start what this owner accepted and what may start now; the jobs, running."""
        if not _own(startable(self.active(), running_limit), owner):
            return []  # the common case takes no write lock
        with self._database.write() as connection:
            active = self._settle(connection, owner, now)
            mine = _own(startable(active, running_limit), owner)
            return [_write(connection, transitions.start(job, now)) for job in mine]

    def change(self, job_id: str, transition: Callable[[Job], Job]) -> Job | None:
        """Put one job through a transition; the job afterwards, None if there is no such job."""
        with self._database.write() as connection:
            job = _one(connection, f"{_SELECT} WHERE id = ?", job_id)
            if job is None:
                return None
            changed = transition(job)
            return job if changed == job else _write(connection, changed)

    def restore(self, job: Job) -> None:
        """Write a job that runs but is no longer in the file: the file was lost and made anew."""
        with self._database.write() as connection:
            taken = _one(connection, f"{_SELECT} WHERE number = ?", job.number)
            number = job.number if taken is None else _next_number(connection)
            _write(connection, replace(job, number=number))

    def sweep(self, owner: Owner, ttl: float, now: float) -> None:
        """End or take over jobs that nobody works on; forget those that ended ttl seconds ago."""
        if any(self._verdict(job, owner, now) is not Verdict.HOLDS for job in self.active()):
            with self._database.write() as connection:
                self._settle(connection, owner, now)
        with self._database.read() as connection:
            old = connection.execute("SELECT 1 FROM job WHERE finished_at < ? LIMIT 1", (now - ttl,)).fetchone()
        if old:
            with self._database.write() as connection:
                connection.execute("DELETE FROM job WHERE finished_at < ?", (now - ttl,))
                connection.execute("DELETE FROM asked WHERE job_id NOT IN (SELECT id FROM job)")

    def get(self, job_id: str) -> Job | None:
        """A job by its id."""
        with self._database.read() as connection:
            return _one(connection, f"{_SELECT} WHERE id = ?", job_id)

    def latest(self) -> Job | None:
        """The job accepted last."""
        with self._database.read() as connection:
            return _one(connection, f"{_SELECT} ORDER BY number DESC LIMIT 1")

    def active(self) -> list[Job]:
        """All queued and running jobs, in order of acceptance."""
        with self._database.read() as connection:
            return [from_row(row) for row in connection.execute(_ACTIVE)]

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _verdict(self, job: Job, judge_owner: Owner, now: float) -> Verdict:
        # An owner knows what it does itself, however late its own heartbeat is.
        if job.owner == judge_owner:
            return Verdict.HOLDS
        return judge(job.lease_until, job.suspected, self._look(job.owner), now)

    def _settle(self, connection: sqlite3.Connection, judge_owner: Owner, now: float) -> list[Job]:
        """The active jobs, after those that nobody works on were ended or taken over."""
        active = []
        for row in connection.execute(_ACTIVE).fetchall():
            job = from_row(row)
            verdict = self._verdict(job, judge_owner, now)
            if verdict is Verdict.ABANDONED:
                estate = _estate(job, judge_owner, now)
                if estate is Estate.ENDS:
                    _write(connection, transitions.abandon(job, _reason(job, self._look(job.owner)), now))
                    continue
                if estate is Estate.MINE:
                    job = _write(connection, transitions.adopt(job, judge_owner, now))
            elif verdict is Verdict.SUSPECT:
                job = _write(connection, transitions.suspect(job, now))
            active.append(job)
        return active


Submitted = tuple[Decision | Repeated, Job | None]


def _estate(job: Job, judge_owner: Owner, now: float) -> Estate:
    return inherit(
        judge_is_heir=bool(judge_owner.heir_to) and judge_owner.heir_to == job.request.target,
        has_heirs=bool(job.owner.heir_to),
        cancelled=bool(job.cancel),
        adoptions=job.adoptions,
        lease_until=job.lease_until,
        now=now,
    )


def _reason(job: Job, seen: Presence) -> str:
    if job.adoptions >= MOST_ADOPTIONS:
        return f"The service ended {job.adoptions + 1} times while this job ran; it may be what ends it."
    if seen is Presence.GONE:
        return f"The process that accepted the job (pid {job.owner.pid}) ended before the job did."
    return f"The process that accepted the job (pid {job.owner.pid}) gave no sign of life for too long."


def _own(jobs: Sequence[Job], owner: Owner) -> list[Job]:
    return [job for job in jobs if job.owner == owner]


def _one(connection: sqlite3.Connection, query: str, *values: str | int) -> Job | None:
    row = connection.execute(query, values).fetchone()
    return None if row is None else from_row(row)


def _write(connection: sqlite3.Connection, job: Job) -> Job:
    connection.execute(_WRITE, to_row(job))
    if job.status is transitions.Status.FAILED:
        _log_failure(job)
    return job


def _log_failure(job: Job) -> None:
    """A line for the service's log. No warning: who waits for the job at a shell is told how it ended there."""
    sentence = one_line(job.error).split(". ")[0].rstrip(".")
    folder = one_line(printable(str(job.request.scope.absolute)))
    log.info("job %s of %s failed: %s.", job.id, folder, sentence)


def _new_id(connection: sqlite3.Connection) -> str:
    """Eight hex digits, as clients of the old tool know them, that no remembered job has."""
    while True:
        job_id = secrets.token_hex(4)
        if _one(connection, f"{_SELECT} WHERE id = ?", job_id) is None:
            return job_id


def _next_number(connection: sqlite3.Connection) -> int:
    # sqlite_sequence remembers the highest number ever given, also of jobs that are forgotten by now.
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'job'").fetchone()
    return 1 if row is None else int(row[0]) + 1
