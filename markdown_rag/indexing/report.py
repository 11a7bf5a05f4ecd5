"""What an index run saw and did: values only. A job's result and the shell's summary are made from it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

NAMED = 50  # how many names a report keeps of each kind; the counts are always whole


class Phase(StrEnum):
    """Where a run stands; the words of the old tool stay valid."""

    PENDING = "pending"
    SCAN = "scan"
    CHUNK = "chunk"
    EMBED = "embed"
    INSERT = "insert"
    RECONCILE = "reconcile"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ProblemKind(StrEnum):
    """Why a file or folder was left out or needs a look. The words are stable: programs may count by them."""

    UNREADABLE = "unreadable"  # the disk said no; rows under it stay
    NOT_REGULAR = "not_regular"  # a FIFO, socket, device, or a folder named like a note
    LINK = "link"  # a symbolic link: never followed
    NAME = "name"  # the name is not UTF-8, or longer than a store can hold
    LEFT_OUT = "left_out"  # the scope asked for lies in something a rule leaves out
    TOO_LARGE = "too_large"
    CHANGING = "changing"  # it changed while it was read, twice, or went away; the next run takes it
    NOT_TEXT = "not_text"
    EMPTY = "empty"
    BUDGET = "budget"  # the job's token budget is used up; its older rows stay, the next run takes it
    REFUSED = "refused"  # the provider refused a text of it; its older rows stay
    WARNING = "warning"  # indexed, with something to know
    STATE = "state"  # a state file could not be used; it costs time, nothing else


@dataclass(frozen=True, slots=True)
class Problem:
    """One file or folder that was left out or needs a look. reason is a sentence part."""

    path: str
    kind: ProblemKind
    reason: str


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Bytes of a file that are in no chunk, and why (I11)."""

    path: str
    start_byte: int
    end_byte: int
    reason: str


@dataclass(slots=True)
class Progress:
    """Live figures of a run; written by the run, read by anybody (plain attribute writes, no lock needed).

    processed_files: done with, however, or unchanged from the start. stored_files: those of them whose rows are in the
    store. processed_chunks: those that have a vector. total_bytes: of all files; processed_bytes: of files that need no
    vector, and of the others the share of their chunks that has one.
    """

    phase: Phase = Phase.PENDING
    total_files: int = 0
    processed_files: int = 0
    total_chunks: int = 0
    processed_chunks: int = 0
    total_bytes: int = 0
    processed_bytes: float = 0.0
    stored_files: int = 0
    note: str = ""

    @property
    def percent(self) -> float:
        """0 to 100. Counts bytes: known before the first file is read, and near to what chunks and vectors cost."""
        if self.phase is Phase.DONE:
            return 100.0
        return round(min(99.0, 100.0 * self.processed_bytes / self.total_bytes), 1) if self.total_bytes else 0.0


@dataclass(slots=True)
class Report:
    """The outcome of one run. Lists are cut at NAMED names; the counters beside them are whole.

    new, modified, deleted, unchanged, touched: files. inserted: rows stored. embedded: texts sent to the provider;
    cached: texts whose vector was known. tokens: of what was sent (cl100k, an estimate for other models). orphans: rows
    that reconcile removed; of a run that died, all that it meant to write. failed: files tried and not indexed.
    postponed: left to the next run by the token budget.
    left_out: rule -> files and folders that the exclusions and ``.gitignore`` kept out (a folder counts once).
    """

    new: int = 0
    modified: int = 0
    deleted: int = 0
    unchanged: int = 0
    touched: int = 0
    files: list[str] = field(default_factory=list)
    chunks: int = 0
    inserted: int = 0
    embedded: int = 0
    cached: int = 0
    tokens: int = 0
    orphans: int = 0
    failed: int = 0
    postponed: int = 0
    problems: list[Problem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    problem_counts: Counter[str] = field(default_factory=Counter)
    exclusions: list[Exclusion] = field(default_factory=list)
    excluded_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def add_file(self, path: str) -> None:
        """Remember a changed file's name while there is room."""
        if len(self.files) < NAMED:
            self.files.append(path)

    def add_problem(self, problem: Problem) -> None:
        """Count a problem by kind and keep it while there is room."""
        self.problem_counts[problem.kind] += 1
        if len(self.problems) < NAMED:
            self.problems.append(problem)

    def add_exclusion(self, exclusion: Exclusion) -> None:
        """Count excluded bytes and keep the range while there is room."""
        self.excluded_bytes += exclusion.end_byte - exclusion.start_byte
        if len(self.exclusions) < NAMED:
            self.exclusions.append(exclusion)
