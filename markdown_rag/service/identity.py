"""Which service an agent belongs to: settings in, names out.

A service is shared by everybody with the same version and the same process-wide settings: every variable but those of
an agent, which travel with its requests. Keys count by a salted hash, so that no name or file tells anything of them;
the salt is random, one a state directory. Names carry the machine too: a home may be on a network file system.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from markdown_rag import __version__
from markdown_rag.errors import StartError
from markdown_rag.paths import host_id, make_private
from markdown_rag.settings import Settings, describe

PROTOCOL = 1  # of the requests; services of another protocol are other services

AGENT_VARIABLES = frozenset(
    {
        "MARKDOWN_WORKSPACE",
        "MARKDOWN_WORKSPACE_ID",
        "MARKDOWN_EXCLUDE_DIRS",
        "MARKDOWN_EXCLUDE_FILES",
        "MARKDOWN_CHUNK_SIZE",
        "MARKDOWN_CHUNK_OVERLAP",
        "MIN_CHUNK_TOKENS",
        "MIN_FINAL_TOKENS",
        "DEDUP_MAX_PER_FILE",
        "MARKDOWN_WATCH",
    }
)
# Of whoever starts the service; another value is no reason for a second one.
STARTER_VARIABLES = frozenset({"MARKDOWN_RAG_SERVICE", "MARKDOWN_RAG_IDLE_MINUTES"})

# What the SDKs of providers and TLS libraries read for themselves.
_LIBRARY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
_GOOGLE_VARIABLES = ("GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CONFIG")
_PATHS = (
    "CLOUDSDK_CONFIG", "GOOGLE_APPLICATION_CREDENTIALS", "MARKDOWN_RAG_CACHE_DIR", "MARKDOWN_WORKSPACE",
    "MILVUS_CA_FILE", "MILVUS_TARGET_CA_FILE", "SSL_CERT_DIR", "SSL_CERT_FILE",
)  # fmt: skip
_PATHS_OR_NAMES = ("EMBEDDING_MODEL", "RERANK_MODEL")
_SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class Identity:
    """One service's names. folder: where its files lie. fingerprint: of machine and settings, without the version."""

    folder: Path
    fingerprint: str
    version: str = __version__

    @property
    def stem(self) -> str:
        """What the names of its files start with."""
        return f"{self.fingerprint}-{self.version}"

    @property
    def kind(self) -> str:
        """Who it says it is."""
        return f"markdown-rag service {PROTOCOL} {self.stem}"

    @property
    def endpoint(self) -> Path:
        """The file that says where it answers."""
        return self.folder / f"{self.stem}.json"

    @property
    def start_lock(self) -> Path:
        """Held by who starts it."""
        return self.folder / f"{self.stem}.start"

    @property
    def life_lock(self) -> Path:
        """Held by the service while it lives; holds its owner as JSON."""
        return self.folder / f"{self.stem}.life"

    @property
    def log(self) -> Path:
        """What it has to say."""
        return self.folder / f"{self.stem}.log"


def identify(settings: Settings) -> Identity:
    """The service for these settings; makes its folder. Raises StartError where that cannot be written."""
    folder = settings.state_directory / "service"
    try:
        make_private(folder)
        salt = _salt(folder / "salt")
    except OSError as error:
        raise StartError(f"{folder} cannot be written: {error.strerror or error}.") from error
    return Identity(folder, fingerprint(settings, salt))


def fingerprint(settings: Settings, salt: bytes) -> str:
    """16 hex digits that stand for machine, protocol and process-wide settings."""
    values: dict[str, object] = {"host": host_id(), "protocol": PROTOCOL}
    for variable in describe():
        if variable.name not in AGENT_VARIABLES | STARTER_VARIABLES:
            value = getattr(settings, variable.name.lower())
            values[variable.name] = _hashed(value, salt) if isinstance(value, SecretStr) else value
    values["MARKDOWN_RAG_CACHE_DIR"] = os.path.realpath(settings.state_directory)
    values["MILVUS_ADDRESS"] = settings.store_address
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]


def located(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The same variables with relative paths made absolute: the agent means them from its folder, wherever they end.

    A name may be a folder or a model; it is a path if there is one. MILVUS_ADDRESS and the excludes start elsewhere.
    """
    paths = {name for name in _PATHS if environ.get(name, "").strip()}
    names = {name for name in _PATHS_OR_NAMES if (given := environ.get(name, "").strip()) and (folder / given).exists()}
    return {
        name: str(folder / os.path.expanduser(value.strip())) if name in paths | names else value
        for name, value in environ.items()
    }


def agent_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """An agent's own variables, as they travel with its requests."""
    return {name: environ[name] for name in sorted(AGENT_VARIABLES) if environ.get(name, "").strip()}


def service_environment(environ: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """What a service is given: the process-wide variables, and those that libraries read. No agent's own."""
    names = [variable.name for variable in describe() if variable.name not in AGENT_VARIABLES]
    names += [*_GOOGLE_VARIABLES, *_LIBRARY_VARIABLES, *(name.lower() for name in _LIBRARY_VARIABLES)]
    given = {name: environ[name] for name in names if name in environ}
    # Absolute: the service starts elsewhere.
    return given | {"MARKDOWN_RAG_CACHE_DIR": str(settings.state_directory)}


def _hashed(secret: SecretStr, salt: bytes) -> str:
    value = secret.get_secret_value()
    return hashlib.blake2b(value.encode(), key=salt).hexdigest() if value else ""


def _salt(path: Path) -> bytes:
    """The state directory's salt, made once whoever comes first. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        known = path.read_bytes()
        if len(known) == _SALT_BYTES:
            return known
    draft = path.with_name(f"salt.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_SALT_BYTES))
        _publish(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    return path.read_bytes()


def _publish(draft: Path, path: Path) -> None:
    """The first one stays; a damaged one, which nobody can have used, is replaced."""
    try:
        os.link(draft, path)
    except FileExistsError:
        if path.stat().st_size != _SALT_BYTES:
            draft.replace(path)
    except OSError:  # a file system without hard links
        draft.replace(path)
