"""Walk a scope: a folder on disk in, the markdown files in it with their stats out, and everything else by name.

Guarantees: nothing outside the workspace is listed, links are named and never followed, special files are never opened,
and an error never looks like an absence: what could not be read stands in ``unreadable``, and nothing under it may be
taken for deleted (I2). One ``lstat`` a markdown file, none for the rest; no file is opened but ``.gitignore``.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from markdown_rag.clock import StopSignal
from markdown_rag.errors import WorkspaceError
from markdown_rag.indexing.ignore import (
    IgnoreFile,
    NameRules,
    ScanPolicy,
    ignored_by,
    name_rules,
    parse_gitignore,
)
from markdown_rag.indexing.reading import Stamp, reason, relative_inside
from markdown_rag.indexing.report import Problem, ProblemKind
from markdown_rag.markdown.names import is_document
from markdown_rag.paths import Scope, is_utf8, is_within, printable

_GITIGNORE = ".gitignore"
_GITIGNORE_BYTES = 1_000_000  # a longer one is data, not rules
_LOOK_EVERY = 256  # entries of a folder between two looks at the stop signal


@dataclass(frozen=True, slots=True)
class Seen:
    """A regular markdown file of the scope, as the walk saw it. path: relative, POSIX, as on disk."""

    path: str
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a walk found.

    files: by path, in path order. unreadable: folders and files the disk refused to show ("" is the root).
    left_out: rule -> how many files and folders it kept out. folders: how many were listed.
    root_is_empty: the workspace's root holds nothing at all, as a mount point does whose disk is away.
    """

    files: dict[str, Seen]
    problems: tuple[Problem, ...]
    unreadable: frozenset[str]
    left_out: Counter[str]
    folders: int
    root_is_empty: bool

    def protects(self, path: str) -> bool:
        """Whether nothing may be said about a path, since its folder or itself could not be read."""
        return any(is_within(path, hidden) for hidden in self.unreadable)


def canonical(scope: Scope) -> Scope:
    """The same scope by its real path: a link inside the workspace leads to what it names.

    Raises WorkspaceError when it leads out.
    """
    root = str(scope.workspace.root)
    real = os.path.realpath(scope.absolute)
    inside = relative_inside(real, root)
    if inside is None:
        raise WorkspaceError(
            f"{scope.path} leads out of the workspace {root}.",
            "Index the folder it leads to as a workspace of its own.",
        )
    return Scope(scope.workspace, inside, scope.recursive)


def scan(scope: Scope, policy: ScanPolicy, stop: StopSignal) -> ScanResult:
    """Walk the scope. Raises WorkspaceError when the workspace's root is gone or unreadable, Cancelled on request."""
    walk = _Walk(scope, policy, name_rules(policy))
    root_is_empty = walk.check_root()
    ignores = walk.rules_above()
    if ignores is not None:
        walk.start(ignores, stop)
    return ScanResult(
        files=dict(sorted(walk.files.items())),
        problems=tuple(walk.problems),
        unreadable=frozenset(walk.unreadable),
        left_out=walk.left_out,
        folders=walk.folders,
        root_is_empty=root_is_empty,
    )


@dataclass(slots=True)
class _Walk:
    """The state of one walk."""

    scope: Scope
    policy: ScanPolicy
    rules: NameRules
    files: dict[str, Seen] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unreadable: set[str] = field(default_factory=set)
    left_out: Counter[str] = field(default_factory=Counter)
    folders: int = 0

    @property
    def root(self) -> str:
        return str(self.scope.workspace.root)

    def absolute(self, path: str) -> str:
        return os.path.join(self.root, path) if path else self.root

    def report(self, path: str, kind: ProblemKind, reason: str) -> None:
        self.problems.append(Problem(printable(path), kind, reason))

    def refuse(self, path: str, error: OSError) -> None:
        """Note something the disk would not show, and protect what lies under it."""
        self.unreadable.add(path)
        self.report(path or ".", ProblemKind.UNREADABLE, reason(error))

    def check_root(self) -> bool:
        """Whether the root is an empty folder."""
        try:
            with os.scandir(self.root) as entries:
                return next(entries, None) is None
        except OSError as error:
            raise WorkspaceError(
                f"The workspace {self.root} cannot be read: {reason(error)}.",
                "Nothing was changed. Is its disk mounted, and does this user have the right to read it?",
            ) from error

    def rules_above(self) -> list[IgnoreFile] | None:
        """The ``.gitignore`` files from the root down to the folder above the scope; None if a rule leaves it out."""
        ignores: list[IgnoreFile] = []
        if not self.scope.path:
            return ignores
        folder = ""
        for part in self.scope.path.split("/"):
            path = f"{folder}/{part}" if folder else part
            ignores += self.gitignore(folder)
            is_folder = path != self.scope.path or os.path.isdir(self.absolute(path))
            rule = self.rule(part, path, is_folder, ignores)
            if rule:
                self.left_out[rule] += 1
                self.report(self.scope.path, ProblemKind.LEFT_OUT, f"left out by the rule: {rule}")
                return None
            folder = path
        return ignores

    def rule(self, name: str, path: str, is_folder: bool, ignores: list[IgnoreFile]) -> str:
        """The rule that leaves out an entry, or ""."""
        named = self.rules.folder(name, path) if is_folder else self.rules.file(name, path)
        return named or (ignored_by(ignores, path, is_folder) if ignores else "")

    def gitignore(self, folder: str) -> list[IgnoreFile]:
        """The folder's own ``.gitignore``, if to be obeyed and a regular file: git follows no link here either."""
        path = f"{folder}/{_GITIGNORE}" if folder else _GITIGNORE
        absolute = self.absolute(path)
        if not self.policy.gitignore:
            return []
        try:
            if not stat.S_ISREG(os.lstat(absolute).st_mode):
                return []
            with open(absolute, "rb") as file:
                return [parse_gitignore(folder, file.read(_GITIGNORE_BYTES))]
        except FileNotFoundError:
            return []
        except OSError as error:
            self.report(path, ProblemKind.UNREADABLE, f"{reason(error)}; its rules are not applied")
            return []

    def start(self, ignores: list[IgnoreFile], stop: StopSignal) -> None:
        """Walk from the scope's own path, which may be a file, a folder or gone."""
        path = self.scope.path
        try:
            found = os.lstat(self.absolute(path))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self.refuse(path, error)
            return
        if not stat.S_ISDIR(found.st_mode):
            self.take(path, found)
            return
        pending = [(path, ignores)]
        while pending:
            stop.check()
            pending += self.list_folder(*pending.pop(), stop)

    def list_folder(self, folder: str, above: list[IgnoreFile], stop: StopSignal) -> list[tuple[str, list[IgnoreFile]]]:
        """Take a folder's files; the folders in it that are to be walked, each with the rules that hold in it."""
        try:
            with os.scandir(self.absolute(folder)) as listing:
                entries = sorted(_stoppable(listing, stop), key=_name)
        except OSError as error:
            self.refuse(folder, error)
            return []
        self.folders += 1
        has_rules = any(entry.name == _GITIGNORE for entry in entries)
        ignores = above + self.gitignore(folder) if has_rules else above
        prefix = f"{folder}/" if folder else ""
        visited = _stoppable(entries, stop)
        return [(path, ignores) for entry in visited for path in self.visit(entry, prefix + entry.name, ignores)]

    def visit(self, entry: os.DirEntry[str], path: str, ignores: list[IgnoreFile]) -> Iterator[str]:
        """Judge one entry; yields its path if it is a folder to be walked."""
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            is_link = not is_folder and entry.is_symlink()
            if not (is_folder or is_link or is_document(entry.name)):
                return
            if is_folder and not self.scope.recursive:
                return
            rule = self.rule(entry.name, path, is_folder or (is_link and _leads_to_folder(entry)), ignores)
            if rule:
                self.left_out[rule] += 1
            elif not (entry.name.isascii() or is_utf8(entry.name)):
                self.report(path, ProblemKind.NAME, "the name is not UTF-8")
            elif is_link:
                self.name_link(path, entry)
            elif is_folder:
                if is_document(entry.name):
                    self.report(path, ProblemKind.NOT_REGULAR, "not a regular file (a folder)")
                yield path
            else:
                self.take(path, entry.stat(follow_symlinks=False))
        except OSError as error:
            self.refuse(path, error)

    def take(self, path: str, found: os.stat_result) -> None:
        """Add a regular markdown file; name what only looks like one."""
        if stat.S_ISREG(found.st_mode):
            if is_document(path):
                self.files[path] = Seen(path, Stamp.of(found))
        elif is_document(path):
            self.report(path, ProblemKind.NOT_REGULAR, f"not a regular file ({_file_type(found.st_mode)})")

    def name_link(self, path: str, entry: os.DirEntry[str]) -> None:
        """Say where a link leads, if it could be taken for a note or a folder of notes."""
        try:
            leads_to_folder = stat.S_ISDIR(entry.stat().st_mode)
        except OSError as error:
            if is_document(entry.name):
                why = "link loop" if error.errno == errno.ELOOP else f"broken link ({reason(error)})"
                self.report(path, ProblemKind.LINK, why)
            return
        if not leads_to_folder and not is_document(entry.name):
            return
        target = relative_inside(os.path.realpath(entry.path), self.root)
        if target is None:
            why = "link to a place outside the workspace"
        elif leads_to_folder and is_within(path, target):
            why = "link loop: it leads to a folder it lies in"
        else:
            why = f"link inside the workspace, the same as {target}"
        self.report(path, ProblemKind.LINK, why)


def _stoppable(entries: Iterable[os.DirEntry[str]], stop: StopSignal) -> Iterator[os.DirEntry[str]]:
    """The entries, with a look now and then at whether somebody asked to stop: a folder can hold 100,000."""
    for number, entry in enumerate(entries):
        if number % _LOOK_EVERY == 0:
            stop.check()
        yield entry


def _leads_to_folder(link: os.DirEntry[str]) -> bool:
    try:
        return link.is_dir()
    except OSError:
        return False


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _file_type(mode: int) -> str:
    """A file type in a word."""
    kinds = ((stat.S_ISFIFO, "FIFO"), (stat.S_ISSOCK, "socket"), (stat.S_ISLNK, "link"))
    return next((word for test, word in kinds if test(mode)), "a device or the like")
