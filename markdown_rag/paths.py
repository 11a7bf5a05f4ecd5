"""Where things are: workspaces, scopes, relative paths, the state directory.

A path in the index is relative to its workspace, POSIX, exactly as on disk; comparing is done in NFC.
A workspace's id comes from this host and the real path of its root, or from MARKDOWN_WORKSPACE_ID, so that the
same folder has one id however it is spelled, and two machines never share one by accident.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import unicodedata
import uuid
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from markdown_rag.amounts import amount
from markdown_rag.errors import InputError, WorkspaceError

APP_NAME = "markdown-fastrag-mcp"
_PATH_BYTES = 4096  # PATH_MAX of Linux; macOS takes 1,024
_SERVER_SCHEMES = ("http", "https", "tcp")
_MACHINE_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")


@dataclass(frozen=True, slots=True)
class Workspace:
    """A root directory and its id. root is a real path (no symlinks, absolute)."""

    id: str
    root: Path

    @property
    def name(self) -> str:
        """The root's last part: what people call it."""
        return self.root.name or str(self.root)


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of a workspace: everything ("" as path), a folder or a file, relative and POSIX, as on disk.

    recursive False means only the files that lie directly in the folder.
    """

    workspace: Workspace
    path: str = ""
    recursive: bool = True

    @property
    def absolute(self) -> Path:
        """Where it is on disk."""
        return self.workspace.root / self.path if self.path else self.workspace.root

    def covers(self, other: Scope) -> bool:
        """Whether indexing this scope indexes all of the other."""
        if self.workspace.id != other.workspace.id:
            return False
        if not self.recursive:
            return self.path == other.path and not other.recursive
        return is_within(other.path, self.path)

    def overlaps(self, other: Scope) -> bool:
        """Whether the two could touch the same file."""
        same = self.workspace.id == other.workspace.id
        return same and (is_within(self.path, other.path) or is_within(other.path, self.path))


def nfc(text: str) -> str:
    """Unicode's composed form, in which paths are compared."""
    return unicodedata.normalize("NFC", text)


def is_within(path: str, folder: str) -> bool:
    """Whether a relative POSIX path is the folder or lies under it ("" is the root). Exact, no wildcards."""
    return not folder or path == folder or path.startswith(folder + "/")


def file_digest(workspace: str, path: str) -> str:
    """12 hex digits that stand for a file in answers: of its workspace's id and its relative path."""
    return hashlib.sha256(f"{workspace}\0{path}".encode("utf-8", "surrogatepass")).hexdigest()[:12]


def printable(path: str) -> str:
    r"""A path as valid Unicode: undecodable bytes as ``\xNN``."""
    return path if is_utf8(path) else "".join(_escaped(character) for character in path)


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte that is no UTF-8 (PEP 383)
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if 0xD800 <= code <= 0xDFFF else character


def names_server(address: str) -> bool:
    """Whether a store's address names a server, of whatever kind, and not a folder."""
    return "://" in address or address.lower().startswith("unix:")


def is_store_address(address: str) -> bool:
    """Whether a store can be there; it says nothing about whether anybody listens.

    A path that ends in ``.db``, ``unix:`` with a path, or a server: scheme, host, and a port from 1 to 65535 if any.
    """
    scheme, _, rest = address.partition(":")
    if not names_server(address):
        return address.endswith(".db") and "\0" not in address
    if scheme.lower() == "unix":
        return bool(rest.removeprefix("//"))
    try:
        parts = urlsplit(address)
        # A port that is none raises on being asked for, a name that no resolver takes on being encoded.
        host, port = (parts.hostname or "").encode("idna"), parts.port
    except ValueError:
        return False
    return scheme.lower() in _SERVER_SCHEMES and bool(host) and port != 0 and not re.search(r"\s", address)


def is_utf8(name: str) -> bool:
    """Whether a file name is valid Unicode (undecodable bytes come as lone surrogates)."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def state_directory(configured: str = "") -> Path:
    """The directory for the index and our files: as configured, else in the user's data directory.

    Never relative to the working directory: agents start in different ones and must meet.
    """
    if configured:
        return Path(configured).expanduser().absolute()
    return _user_data_directory() / APP_NAME / ".db"


def _user_data_directory() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    configured = os.environ.get("XDG_DATA_HOME", "")
    # The XDG base directory specification: relative values are to be ignored.
    return Path(configured) if os.path.isabs(configured) else Path.home() / ".local" / "share"


@lru_cache(maxsize=1)
def host_id() -> str:
    """An id of this machine that survives restarts and renames: systemd's machine id, else the network card's."""
    for name in _MACHINE_ID_FILES:
        try:
            text = Path(name).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text:
            return text
    return f"{uuid.getnode():012x}"


def workspace_for(root: Path, shared_id: str = "", *, host: str = "") -> Workspace:
    """The workspace of an existing directory; shared_id replaces the id made from host ("": this one) and real path."""
    real = Path(os.path.realpath(root))
    if shared_id:
        return Workspace(shared_id, real)
    digest = hashlib.sha256(f"{host or host_id()}\0".encode() + os.fsencode(real)).hexdigest()
    return Workspace(digest[:16], real)


def _real(path: str) -> str:
    """The real path; where nothing is there, that of the same names in the Unicode form they have on disk."""
    real = os.path.realpath(path)
    if real.isascii() or os.path.lexists(real):
        return real
    found, parts = os.sep, real.split(os.sep)
    for number, name in enumerate(parts):
        step = os.path.join(found, name)
        if not os.path.lexists(step):
            try:
                same = [known for known in sorted(os.listdir(found)) if nfc(known) == nfc(name)]
            except OSError:
                same = []
            if not same:
                return os.path.join(found, *parts[number:])
            step = os.path.realpath(os.path.join(found, same[0]))
        found = step
    return found


def open_root(given: str, shared_id: str = "", *, argument: str = "current_working_directory") -> Workspace:
    """The workspace a user named; refuses what is no directory, the file system's root and the home directory.

    argument: by what it was named, an argument or a variable. Raises WorkspaceError with the way out.
    """
    _check_characters(given)
    real = Path(_real(os.path.expanduser(given)))
    if not os.path.isdir(real):  # pathlib raises for a name that is too long
        if os.path.exists(real):
            alone = "" if argument.isupper() else f", and directory={real.name} for this file alone"
            raise WorkspaceError(f"{given} is a file, not a folder.", f"Give its folder as {argument}{alone}.")
        raise WorkspaceError(f"Directory does not exist: {given}", f"Give the folder of markdown as {argument}.")
    if real == Path(real.anchor) or real == Path(os.path.realpath(Path.home())):
        kind = "the file system's root" if real == Path(real.anchor) else "the home directory"
        raise WorkspaceError(
            f"{given} is {kind}, and indexing all of it is refused.",
            "Pass the folder that holds your markdown, for example ~/notes, or set MARKDOWN_WORKSPACE to it.",
        )
    return workspace_for(real, shared_id)


def relative_to(workspace: Workspace, given: str) -> str:
    """The relative POSIX path of what a user named inside a workspace; "" for the root itself.

    Takes absolute and relative spellings, ``.``, ``..``, a trailing slash, other Unicode forms, and links, which stand
    for what they lead to. Raises InputError for what lies outside.
    """
    _check_characters(given)
    real = _real(os.path.join(workspace.root, os.path.expanduser(given)))
    root = str(workspace.root)
    if real == root:
        return ""
    if not real.startswith(root.rstrip(os.sep) + os.sep):
        raise InputError(
            f"{given} is outside the workspace {root}.", "Name a folder or file inside it, absolute or relative to it."
        )
    return os.path.relpath(real, root).replace(os.sep, "/")


def _check_characters(given: str) -> None:
    """Refuse what no call of the file system takes; the surrogates that stand for undecodable bytes are names."""
    if "\0" in given:
        raise InputError("The path holds a NUL character.", "Give the path as text.")
    try:
        length = len(os.fsencode(given))
    except UnicodeEncodeError as error:
        raise InputError("The path is not valid Unicode.", "Give the path as text.") from error
    if length > _PATH_BYTES:
        raise InputError(f"The path is {amount(length, 'byte')} long.", f"A path has at most {_PATH_BYTES:,}.")


def missing_state(folder: Path) -> tuple[str, str]:
    """What to say where the state directory is not there, and what to do: who has started does not make it again."""
    return (
        f"The state directory {folder} is not there: it was deleted or moved, or cannot be made.",
        "Start this program again, which makes it, or point MARKDOWN_RAG_CACHE_DIR at another folder.",
    )


def make_private(folder: Path) -> None:
    """Make a folder that only its user can read, and whatever is missing above it. What is there stays. Raises OSError.

    ``mkdir(parents=True, mode=...)`` gives the mode to the last folder alone.
    """
    for part in reversed([folder, *folder.parents]):
        if not part.is_dir():
            part.mkdir(mode=0o700, exist_ok=True)
