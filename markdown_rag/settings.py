"""Every variable this package reads: name, default, what is allowed, meaning.

``load_settings`` turns an environment into one frozen ``Settings`` or one ``SettingsError`` with a line for each bad
variable. A field's name is the variable's in lower case; its declaration is the only place that says what is allowed,
and parsing, error lines and the tables of the documentation all come from it. An empty or blank value means unset.
A key is a ``SecretStr``: it appears in no ``repr``, message or log. Nothing heavier than pydantic is imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from pydantic import SecretStr, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from markdown_rag.errors import SettingsError
from markdown_rag.paths import is_utf8, names_server, state_directory
from markdown_rag.variables import NAMES, NO_KEY, Address, Key, Names, Switch, switch, text, value, whole

Provider = Literal["local", "gemini", "vertex", "openai", "openai-compatible", "voyage"]

_KEY_VARIABLES: Final[Mapping[str, str]] = {
    "gemini": "GEMINI_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openai-compatible": "EMBEDDING_API_KEY",
    "voyage": "VOYAGE_API_KEY",
}
_SHOWN = 80  # characters of a bad value that an error line repeats


@dataclass(frozen=True, slots=True)
class Variable:
    """One line of the documentation: default ("" is unset) and range in words, formerly as version 1 had it or ""."""

    name: str
    default: str
    range: str
    meaning: str
    secret: bool
    formerly: str


_KEY = "a key of printable ASCII characters without blanks"
_FOLDER = "a folder's path"
_PROVIDERS = f"one of {', '.join(get_args(Provider))}"


class Settings(BaseSettings):
    """All settings, checked and frozen. Made by ``load_settings``; ``app`` cuts it into the policies of the parts."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, regex_engine="python-re", validate_default=False
    )

    embedding_provider: Provider = value("local", _PROVIDERS, "Who turns texts into vectors.")
    embedding_model: str = text(
        "",
        "a model's name, or a folder's path with `local`",
        "The provider's model.",
        default="the provider's usual model",
    )
    embedding_dim: int | None = whole(
        None,
        2,
        32_768,
        "Length of a vector, where the provider lets one choose.",
        default="the model's own",
        formerly="768",
    )
    embedding_base_url: str = text(
        "",
        "an http:// or https:// address",
        "Where the server of `openai-compatible` listens.",
        pattern=r"\Ahttps?://[^\s/]\S*\Z",
    )
    embedding_api_key: Key = value(NO_KEY, _KEY, "Key for `openai-compatible`, if its server wants one.")
    gemini_api_key: Key = value(NO_KEY, _KEY, "Key for `gemini`.")
    openai_api_key: Key = value(NO_KEY, _KEY, "Key for `openai`.")
    voyage_api_key: Key = value(NO_KEY, _KEY, "Key for `voyage`.")
    vertex_project: str = text("", "a project's id", "Google project for `vertex`.", default="the credentials' own")
    vertex_location: str = text("us-central1", "a region's name", "Google Cloud region for `vertex`.")
    google_application_credentials: str = text(
        "", "a file's path", "Account file for `vertex`; Google's library reads it.", default="Google's own search"
    )
    embedding_batch_size: int = whole(250, 1, 10_000, "Most texts in a request; a provider's own limit goes first.")
    embedding_concurrent_batches: int = whole(4, 1, 64, "Requests under way at the same time.")
    embedding_batch_delay_ms: int = whole(0, 0, 600_000, "Pause between requests, in milliseconds.")
    embedding_timeout_seconds: int = whole(60, 1, 600, "How long one request may take.")
    embedding_threads: int = whole(1, 1, 256, "Processor threads of the local model.")
    embedding_allow_download: Switch = switch("off", "Whether `local` may fetch a model that `EMBEDDING_MODEL` names.")
    rerank_model: str = text("", "a folder or a model's name", "Cross-encoder over the first 20 hits.", default="none")
    embedding_budget_tokens: int | None = whole(
        None, 1, 10**12, "Most tokens one job may have embedded; the rest waits for the next job.", default="no limit"
    )

    milvus_address: Address = text(
        "",
        "a path that ends in .db, http://host:19530 (or https:// or tcp://; ports from 1 to 65535), or unix:/path",
        "Where the index is: a folder of the embedded engine, or a Milvus server.",
        default="`milvus_markdown.db` in the state directory",
    )
    milvus_token: SecretStr = value(NO_KEY, "a token, or user:password", "Token of the Milvus server.")
    milvus_target_token: SecretStr = value(NO_KEY, "a token, or user:password", "Token at where `migrate` copies to.")
    milvus_database: str = text("", "a database's name", "Database of the Milvus server.", default="the default one")
    milvus_target_database: str = text(
        "", "a database's name", "Database that `migrate` copies to.", default="the server's default one"
    )
    milvus_ca_file: str = text(
        "", "a file's path", "Certificates (PEM) to trust for an `https://` address.", default="the system's"
    )
    milvus_target_ca_file: str = text(
        "", "a file's path", "Certificates (PEM) to trust at the server `migrate` copies to.", default="the system's"
    )
    milvus_insert_batch: int = whole(5000, 1, 100_000, "Most rows in an insert; the store's own limits go first.")
    milvus_timeout_seconds: int = whole(30, 1, 600, "How long one call to the store may take.")
    milvus_wait_seconds: int = whole(20, 0, 600, "How long a server that does not answer is waited for.")

    markdown_workspace: str = text(
        "", _FOLDER, "The one folder that is indexed, whatever a request names.", default="what a request names"
    )
    markdown_workspace_id: str = text(
        "",
        "1 to 64 letters, digits, '.', '_' or '-', and not the word all",
        "Name under which machines share the index of the same documents.",
        pattern=r"\A(?!(?i:all)\Z)[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z",
        default="made from machine and folder",
    )
    markdown_collection: str = text(
        "markdown_vectors",
        "up to 100 letters, digits or '_', with no digit first",
        "First part of the collection's name; provider, model and dimension follow.",
        pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,99}\Z",
    )
    markdown_rag_cache_dir: str = text(
        "",
        _FOLDER,
        "The state directory: embedded index, caches, jobs.",
        default="`markdown-fastrag-mcp/.db` in the user's data directory",
        formerly="`./.db`",
    )
    markdown_exclude_dirs: Names = value(
        (), NAMES, "Folder names to leave out besides the usual ones; `!name` takes one out."
    )
    markdown_exclude_files: Names = value(
        (), NAMES, "File names to leave out besides the usual ones; `!name` takes one out."
    )

    markdown_chunk_size: int = whole(400, 32, 8192, "Most tokens in the embedded text of a chunk.", formerly="2048")
    markdown_chunk_overlap: int = whole(0, 0, 4096, "Tokens repeated where one block had to be cut.", formerly="100")
    min_chunk_tokens: int = whole(
        lambda known: min(100, known["markdown_chunk_size"] // 4),
        0,
        8191,
        "A chunk below this is joined with the next one while both fit.",
        default="100, or a quarter of a smaller `MARKDOWN_CHUNK_SIZE`",
        formerly="300",
    )
    min_final_tokens: int = whole(
        lambda known: min(50, known["markdown_chunk_size"] // 8),
        0,
        8191,
        "A piece below this joins its neighbour; nothing is dropped.",
        default="50, or an eighth of a smaller `MARKDOWN_CHUNK_SIZE`",
        formerly="150",
    )
    dedup_max_per_file: int = whole(1, 0, 50, "Most hits from one file; 0 is no limit.")

    markdown_watch: Switch = switch(
        "off", "Whether edits of the workspace are indexed by themselves, within two seconds of the last one."
    )

    markdown_rag_service: Switch = switch(
        "on", "Whether one background process works for all agents; `off` does everything in the agent's own."
    )
    markdown_rag_idle_minutes: int = whole(
        15, 0, 10_080, "How long the background process stays after its last client has gone and its last job ended."
    )
    markdown_bg_max_jobs: int = whole(1, 1, 64, "Index jobs that run at the same time, over all agents.")
    markdown_bg_job_ttl_seconds: int = whole(1800, 1, 31_536_000, "How long a finished job's outcome can be read.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what ``load_settings`` hands in: nothing reaches for the process's environment or a file by itself."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    @property
    def state_directory(self) -> Path:
        """Where the embedded index, the caches and the job ledger lie: absolute, may not exist yet."""
        return state_directory(self.markdown_rag_cache_dir)

    @property
    def store_address(self) -> str:
        """The store's address; a folder is absolute, whatever directory an agent starts in."""
        given = self.milvus_address or "milvus_markdown.db"
        if names_server(given):
            return given
        return str(self.state_directory / os.path.expanduser(given))

    @property
    def provider_base_url(self) -> str:
        """Where to reach the chosen provider; "" for its own address, so that no key ever goes to another's server."""
        return self.embedding_base_url if self.embedding_provider == "openai-compatible" else ""

    @property
    def key_variable(self) -> str:
        """The variable that holds the chosen provider's key; "" where none is used."""
        return _KEY_VARIABLES.get(self.embedding_provider, "")

    @property
    def provider_key(self) -> SecretStr:
        """The chosen provider's key; empty where none is set or used."""
        key: SecretStr = getattr(self, self.key_variable.lower()) if self.key_variable else NO_KEY
        return key


class _Given(EnvSettingsSource):
    """An environment that was handed in, instead of the process's own."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(Settings)
        self.env_vars = {name.lower(): value for name, value in environ.items()}


def load_settings(environ: Mapping[str, str]) -> Settings:
    """The settings in an environment.

    Raises SettingsError: a line for each bad variable with its value (never a key's) and what is allowed.
    """
    known = {variable.name: variable for variable in describe()}
    given = {name: environ[name].strip() for name in known if environ.get(name, "").strip()}
    bad = {name for name, value in given.items() if not is_utf8(value)}
    contradictions: list[str] = []
    try:
        settings = Settings(**_Given(given)())
        contradictions = _contradictions(settings)
    except ValidationError as error:
        bad |= {str(each["loc"][0]).upper() for each in error.errors(include_url=False, include_input=False)}
    # Outside the except block on purpose: pydantic's error holds the values, and nothing may chain to it.
    if bad or contradictions:
        # What is not given can only be "bad" because the variable that its default depends on is.
        refusals = [_refusal(variable, given) for name, variable in known.items() if name in bad and name in given]
        raise SettingsError("\n".join(refusals + contradictions))
    return settings


def describe() -> list[Variable]:
    """Every variable, in the order of the documentation."""
    return [_variable(name) for name in Settings.model_fields]


def _variable(field_name: str) -> Variable:
    field = Settings.model_fields[field_name]
    notes = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    return Variable(
        name=field_name.upper(),
        default=str(notes.get("default", field.default if isinstance(field.default, int | str) else "")),
        range=str(notes["range"]),
        meaning=field.description or "",
        secret=field.annotation is SecretStr,
        formerly=str(notes.get("formerly", "")),
    )


def _refusal(variable: Variable, given: Mapping[str, str]) -> str:
    value = " has a value that" if variable.secret else f"={_shown(variable, given)}"
    fallback = f" (default: {variable.default})" if variable.default else ""
    return f"{variable.name}{value} is not allowed: give {variable.range}, or leave it unset{fallback}."


def _shown(variable: Variable, given: Mapping[str, str]) -> str:
    """The value as an error line may repeat it: short, printable, without a key or the password of an address."""
    value = given[variable.name]
    keys = [given[other.name] for other in describe() if other.secret and other.name in given]
    if "@" in value or any(key in value for key in keys):
        return "(hidden, it may hold a password)"
    text = value if len(value) <= _SHOWN else value[:_SHOWN] + "…"
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return f'"{printable}"'


def _contradictions(settings: Settings) -> list[str]:
    size = settings.markdown_chunk_size
    return [
        f"{field_name.upper()}={value} is not allowed: give less than MARKDOWN_CHUNK_SIZE, which is {size}."
        for field_name in ("markdown_chunk_overlap", "min_chunk_tokens", "min_final_tokens")
        if (value := getattr(settings, field_name)) >= size
    ]
