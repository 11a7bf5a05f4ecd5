"""What is indexed: the newest committed generation of every file, kept in memory.

Two questions are answered at different prices. ``current`` costs nothing and answers only when the engine can prove
that nobody wrote since; ``snapshot`` may be a few seconds old and is for totals, scopes and filters. ``newest`` asks
the store about a few named files, as a search of this moment sees them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from markdown_rag.clock import Clock
from markdown_rag.errors import FastRagError, StoreUnavailable
from markdown_rag.markdown.names import is_edge_list
from markdown_rag.paths import is_within, nfc
from markdown_rag.search import generations
from markdown_rag.search.generations import FileKey
from markdown_rag.store.base import FileEntry, Store, Where
from markdown_rag.store.filters import matcher
from markdown_rag.store.together import Turns, start_thread

MAX_AGE_S = 5.0
RENEW_SHARE = 0.5  # of that age, from which on a question has it read anew without waiting for it
ASKED_LATELY_S = 30.0
_KEPT = 16  # different sets of workspaces, and counts of a snapshot, that are kept at the same time
_LOAD_SHARE = 40  # what took t seconds to read may be 40 t old and is renewed at 20 t: at most 5 % of the time


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The catalog at one moment. files: newest committed generation by (workspace, path).

    change_count: the engine's, read before the rows were; taken: on the monotonic clock; seconds: what reading cost.
    edge_lists: paths of files that are knowledge about others, which no search looks at.
    """

    files: Mapping[FileKey, FileEntry]
    change_count: int | None
    taken: float
    seconds: float
    gens: Mapping[FileKey, int] = field(default_factory=dict)
    edge_lists: tuple[str, ...] = ()
    _totals: dict[Where, tuple[int, int]] = field(default_factory=dict, compare=False)

    def of(self, workspaces: tuple[str, ...]) -> Snapshot:
        """What it says of these workspaces. seconds: their share, which is what reading them alone would cost."""
        files = {key: entry for key, entry in self.files.items() if key[0] in workspaces}
        share = len(files) / len(self.files) if self.files else 1.0
        return _snapshot(files, self.change_count, self.taken, share * self.seconds)

    def select(self, where: Where) -> list[FileEntry]:
        """The files that a Where means."""
        meant = matcher(where)
        return [entry for entry in self.files.values() if meant(entry.workspace, entry.path)]

    def spelled(self, scope: str) -> str:
        """A scope as its files are spelled on disk where it was typed in another Unicode form, else as typed."""
        if not scope or scope.isascii() or any(is_within(path, scope) for _, path in self.files):
            return scope
        typed, depth = nfc(scope), scope.count("/") + 1
        for _, path in self.files:
            start = "/".join(path.split("/")[:depth])
            if nfc(start) == typed:
                return start
        return scope

    def totals(self, where: Where) -> tuple[int, int]:
        """How many files and chunks a Where means; counted once for the same question."""
        known = self._totals.get(where)
        if known is None:
            files = self.select(where)
            if len(self._totals) >= _KEPT:
                self._totals.clear()
            known = self._totals[where] = (len(files), sum(entry.chunk_count for entry in files))
        return known


def _snapshot(files: Mapping[FileKey, FileEntry], change_count: int | None, taken: float, seconds: float) -> Snapshot:
    gens = {key: entry.gen for key, entry in files.items()}
    lists = tuple(sorted({path for _, path in files if is_edge_list(path)}))
    return Snapshot(files, change_count, taken, seconds, gens, lists)


class Catalog:
    """The catalog of one store. Thread-safe.

    One read of all workspaces serves every part of them. Questions do not wait for a read while they can be answered
    without: from half its age on a snapshot is renewed in the background, after a write of ours by who wrote, and who
    finds one that is too old while somebody reads does not wait either, unless it is more than twice as old as it may
    be: nobody may have asked for hours.
    """

    def __init__(self, store: Store, clock: Clock, max_age_s: float = MAX_AGE_S) -> None:
        self._store = store
        self._clock = clock
        self._max_age_s = max_age_s
        self._snapshots: dict[tuple[str, ...], Snapshot] = {}
        self._forgotten = 0  # times
        self._asked = -ASKED_LATELY_S
        self._lock = threading.Lock()
        self._loading = Turns()

    def current(self, workspaces: tuple[str, ...] = ()) -> Snapshot | None:
        """A snapshot that is proven to hold everything written until now, or None (then ask ``newest`` afterwards)."""
        count = self._store.change_count()
        if count is None:
            return None
        known = self._asked_for(workspaces)
        if known is None or known.change_count != count:
            known = self._kept_up(known, workspaces)
        return known if known.change_count == count else None

    def snapshot(self, workspaces: tuple[str, ...] = ()) -> Snapshot:
        """The catalog of these workspaces ((), all of them), at most a few seconds old."""
        known = self._asked_for(workspaces)
        if known is not None and self._is_old(known, RENEW_SHARE):
            count = self._store.change_count()
            if count is not None and count == known.change_count:
                return known
        return self._kept_up(known, workspaces)

    def fresh(self, workspaces: tuple[str, ...] = ()) -> Snapshot:
        """The catalog as it is now: what an answer that found nothing is explained by."""
        count = self._store.change_count()
        known = self._known(workspaces)
        if known is not None and count is not None and known.change_count == count:
            return known
        return self._load(workspaces, exact=True)

    def newest(self, keys: Iterable[FileKey]) -> dict[FileKey, int]:
        """The newest committed generation of these files, as a search sees it now; files without one are left out."""
        wanted = frozenset(keys)
        if not wanted:
            return {}
        where = Where(
            workspaces=tuple(sorted({workspace for workspace, _ in wanted})),
            paths=tuple(sorted({path for _, path in wanted})),
        )
        found = generations.newest(self._store.commits(where))
        return {key: entry.gen for key, entry in found.items() if key in wanted}

    def forget(self) -> None:
        """Drop what is kept and may be of before a write of ours: all that is not proven to be as of now."""
        count = self._store.change_count()
        with self._lock:
            held = self._snapshots.items() if count is not None else ()
            self._snapshots = {part: known for part, known in held if known.change_count == count}
            self._forgotten += 1

    def written(self) -> None:
        """After a write of ours, by who wrote: whoever asks from now on sees it.

        What is kept is read again here if somebody has asked lately; so nobody who asks has to.
        """
        began = self._clock.monotonic()
        with self._lock:
            self._forgotten += 1
            kept = list(self._snapshots) if began - self._asked < ASKED_LATELY_S else []
        new = None
        try:
            if kept:
                new = self._load(kept[0] if len(kept) == 1 else (), exact=True)
        except FastRagError:
            pass  # who asks reads it, and is told why if that fails too
        finally:
            with self._lock:
                held = self._snapshots.items()
                self._snapshots = {part: known for part, known in held if known is new or known.taken > began}

    def _asked_for(self, workspaces: tuple[str, ...]) -> Snapshot | None:
        self._asked = self._clock.monotonic()
        return self._known(workspaces)

    def _kept_up(self, known: Snapshot | None, workspaces: tuple[str, ...]) -> Snapshot:
        """What is kept, if it is not too old, read anew beforehand or in the background."""
        if known is None or self._is_old(known, 2) or (self._is_old(known) and not self._loading.taken):
            return self._load(workspaces)
        if self._is_old(known, RENEW_SHARE):
            self._renew(workspaces)
        return known

    def _renew(self, workspaces: tuple[str, ...]) -> None:
        """Read it anew in the background, unless somebody reads."""

        def read() -> None:
            with contextlib.suppress(FastRagError):  # who finds it too old reads it and is told
                self._load(workspaces)

        if not self._loading.taken:
            with contextlib.suppress(StoreUnavailable):  # no thread for it
                start_thread(read, "catalog")

    def _known(self, workspaces: tuple[str, ...]) -> Snapshot | None:
        with self._lock:
            known, whole = self._snapshots.get(workspaces), self._snapshots.get(())
            if workspaces and whole is not None and (known is None or known.taken < whole.taken):
                known = whole.of(workspaces)
                self._keep(workspaces, known)
            return known

    def _keep(self, workspaces: tuple[str, ...], snapshot: Snapshot) -> None:
        """Remember it; the caller holds the lock."""
        while len(self._snapshots) >= _KEPT:
            self._snapshots.pop(next(iter(self._snapshots)))
        self._snapshots[workspaces] = snapshot

    def _is_old(self, snapshot: Snapshot, times: float = 1.0) -> bool:
        limit = max(self._max_age_s, _LOAD_SHARE * snapshot.seconds)
        return self._clock.monotonic() - snapshot.taken > times * limit

    def _load(self, workspaces: tuple[str, ...], *, exact: bool = False) -> Snapshot:
        """Read it, or take what somebody else read while this call waited for its turn.

        exact: nothing will do whose reading began before this call, unless nobody has written since.
        """
        asked = self._clock.monotonic()
        with self._loading:
            known = self._known(workspaces)
            if known is not None and self._will_do(known, asked, exact=exact):
                return known
            self._store.capabilities()  # connects: an engine that starts counts as a change
            started, forgotten = self._clock.monotonic(), self._forgotten
            count = self._store.change_count()
            files = generations.newest(self._store.catalog(Where(workspaces=workspaces)))
            snapshot = _snapshot(files, count, started, self._clock.monotonic() - started)
            with self._lock:
                if self._forgotten == forgotten:  # else it may be of before a write that others know to be done
                    self._keep(workspaces, snapshot)
            return snapshot

    def _will_do(self, known: Snapshot, asked: float, *, exact: bool) -> bool:
        if not exact and not self._is_old(known, RENEW_SHARE):
            return True
        count = known.change_count
        return count is not None and (known.taken > asked or count == self._store.change_count())
