"""Which files and folders are left out: names by policy, patterns by ``.gitignore``. Pure.

Names are compared in NFC and exactly; a value with a slash is a path from the workspace's root. Patterns follow git:
the deepest ``.gitignore`` that says anything decides, its last matching line wins, and nothing inside an ignored folder
is looked at again. ``pathspec`` translates a line into a regular expression; what a match means for a single entry is
decided here, because git judges an entry by its own path and pathspec also by those of its parents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pathspec.patterns.gitignore import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from markdown_rag.paths import nfc

# What the tool has always left out; users rely on it, and change it by name.
DEFAULT_DIRS = ("node_modules", "__pycache__", "devlog", "_legacy", "dist", "build", ".git")
DEFAULT_FILES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
DOT_FOLDER = "dot folders"

_UNDER = "ps_d"  # pathspec's group: the slash after which a match goes on inside the matched folder
_ANY_FOLDER = f"(?P<{_UNDER}>/)"  # pathspec's expression for ``*/``
# Pathspec's expressions for what a ``*``, a ``**`` between folders and a ``**`` before all stands for; one character.
_STAR, _FOLDERS, _ABOVE = r"\[\^/\]\*", r"\(\?:/\.\+\)\?", r"\^\(\?:\.\+/\)\?"
_CHARACTER = r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\](?!\*)|[^/()\[\\]"
_BEFORE_STAR = re.compile(rf"{_STAR}((?:{_CHARACTER})+)(?={_STAR})", re.DOTALL)
_BEFORE_FOLDERS = re.compile(rf"({_ABOVE}|{_FOLDERS})((?:(?!{_FOLDERS}).)+)(?={_FOLDERS})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ScanPolicy:
    """What a user adds to the default exclusions; ``!name`` takes one out again (also a dot folder, ``!.github``).

    gitignore False: ``.gitignore`` files are not obeyed.
    """

    exclude_dirs: tuple[str, ...] = ()
    exclude_files: tuple[str, ...] = ()
    gitignore: bool = True


@dataclass(frozen=True, slots=True)
class NameRules:
    """A policy ready to be asked. Answers are the rule that leaves an entry out, or "" to take it."""

    folders: frozenset[str]
    kept_folders: frozenset[str]
    files: frozenset[str]

    def folder(self, name: str, path: str) -> str:
        """The rule that leaves out a folder, by its name and its path from the root."""
        name, path = _composed(name), _composed(path)
        if name in self.folders:
            return f"folder {name}"
        if path in self.folders:
            return f"folder {path}"
        if name.startswith(".") and not self.kept_folders & {name, path}:
            return DOT_FOLDER
        return ""

    def file(self, name: str, path: str) -> str:
        """The rule that leaves out a file, by its name and its path from the root."""
        name, path = _composed(name), _composed(path)
        if name in self.files:
            return f"file {name}"
        return f"file {path}" if path in self.files else ""


def name_rules(policy: ScanPolicy) -> NameRules:
    """The rules of a policy: defaults, plus its names, minus its ``!names``."""
    folders, kept = _merged(DEFAULT_DIRS, policy.exclude_dirs)
    files, _ = _merged(DEFAULT_FILES, policy.exclude_files)
    return NameRules(folders, kept, files)


def _merged(defaults: Iterable[str], words: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    cleaned = [nfc(word.strip()) for word in words]
    kept = frozenset(word[1:].strip("/") for word in cleaned if word.startswith("!"))
    added = {word.strip("/") for word in cleaned if word and not word.startswith("!")}
    return frozenset((set(defaults) | added) - kept - {""}), kept


def _composed(text: str) -> str:
    return text if text.isascii() else nfc(text)


@dataclass(frozen=True, slots=True)
class _Line:
    """One pattern. include False: a negation, which takes entries back."""

    regex: re.Pattern[str]
    include: bool

    def hits(self, path: str, is_folder: bool) -> bool:
        """Whether the line matches this very entry, not merely one of its parents."""
        if self.regex.pattern == _ANY_FOLDER:
            return is_folder
        match = self.regex.search(path)
        if match is not None and match.groupdict().get(_UNDER) is None:
            return True
        if not is_folder:
            return False
        match = self.regex.search(path + "/")
        return match is not None and match.groupdict().get(_UNDER) is not None and match.end(_UNDER) == len(path) + 1


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """A parsed ``.gitignore``. folder: where it lies, relative to the workspace ("" is the root).

    lines: the last line first, as the first to match decides.
    """

    folder: str
    lines: tuple[_Line, ...]

    @property
    def path(self) -> str:
        """The file's own path: the name of the rule in reports."""
        return f"{self.folder}/.gitignore" if self.folder else ".gitignore"

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """True: ignored; False: taken back; None: this file says nothing about the entry."""
        inside = _composed(path[len(self.folder) + 1 :] if self.folder else path)
        for line in self.lines:
            if line.hits(inside, is_folder):
                return line.include
        return None


def parse_gitignore(folder: str, data: bytes) -> IgnoreFile:
    """Read the bytes of a ``.gitignore``. Lines that git would not understand match nothing."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    lines = []
    for raw in text.split("\n"):
        try:
            pattern = GitIgnoreSpecPattern(_spelled(_composed(raw.removesuffix("\r"))))
        except GitIgnorePatternError:
            continue
        if pattern.include is not None and pattern.regex is not None:
            lines.append(_Line(re.compile(_without_backtracking(pattern.regex.pattern)), pattern.include))
    return IgnoreFile(folder, tuple(reversed(lines)))


def _without_backtracking(regex: str) -> str:
    """The same matches in time linear in a name, however many wildcards a line has.

    What stands between a wildcard and the next one may be taken where it comes first: the next takes in the rest.
    """
    regex = _BEFORE_STAR.sub(r"(?>[^/]*?\1)", regex)
    first = {"^": "^(?>(?:.+?/)??", "(": "(?>(?:/.+?)??"}
    return _BEFORE_FOLDERS.sub(lambda found: f"{first[found[1][0]]}{found[2]}(?=/))", regex)


def _spelled(line: str) -> str:
    """``a/**/`` means the folders inside a; pathspec takes it for a itself."""
    return f"{line}*/" if line.endswith("/**/") else line


def ignored_by(files: Sequence[IgnoreFile], path: str, is_folder: bool) -> str:
    """The path of the ``.gitignore`` that leaves out an entry, or "". files: from the root down to its folder."""
    for file in reversed(files):
        verdict = file.verdict(path, is_folder)
        if verdict is not None:
            return file.path if verdict else ""
    return ""
