"""Who shares a service with whom, and that no key can be read from its names and files."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from markdown_rag.errors import StartError
from markdown_rag.facade import IndexCall
from markdown_rag.service.identity import (
    AGENT_VARIABLES,
    STARTER_VARIABLES,
    agent_variables,
    fingerprint,
    identify,
    located,
    service_environment,
)
from markdown_rag.service.siblings import version_key
from markdown_rag.settings import describe, load_settings
from tests.service.conftest import Opener, end_services, engines_of, indexed, write_notes
from tests.waiting import eventually

SALT = b"0123456789abcdef"
NAMES = {variable.name for variable in describe()}
FLIPPED = {v.name: "off" if v.default == "on" else "on" for v in describe() if v.range == "on or off"}
ANOTHER = {
    "EMBEDDING_PROVIDER": "openai",
    "EMBEDDING_BASE_URL": "http://127.0.0.1:1/v1",
    "MILVUS_ADDRESS": "other.db",
    "MARKDOWN_COLLECTION": "others",
    "MARKDOWN_CHUNK_SIZE": "500",
    "MARKDOWN_CHUNK_OVERLAP": "31",
    "MIN_CHUNK_TOKENS": "31",
    "MIN_FINAL_TOKENS": "31",
    **FLIPPED,
}


def of(state: Path, **variables: str) -> str:
    return fingerprint(load_settings({"MARKDOWN_RAG_CACHE_DIR": str(state), **variables}), SALT)


@pytest.mark.parametrize("name", sorted(NAMES - AGENT_VARIABLES - STARTER_VARIABLES - {"MARKDOWN_RAG_CACHE_DIR"}))
def test_another_process_wide_setting_is_another_service(name: str, tmp_path: Path) -> None:
    base = {"EMBEDDING_PROVIDER": "openai-compatible"} if name == "EMBEDDING_BASE_URL" else {}
    assert of(tmp_path, **base, **{name: ANOTHER.get(name, "7")}) != of(tmp_path, **base)


@pytest.mark.parametrize("name", sorted(AGENT_VARIABLES | STARTER_VARIABLES))
def test_an_agents_own_setting_travels_and_makes_no_other_service(name: str, tmp_path: Path) -> None:
    value = ANOTHER.get(name, "7")
    assert of(tmp_path, **{name: value}) == of(tmp_path)
    assert agent_variables({name: value, "PATH": "x"}) == ({name: value} if name in AGENT_VARIABLES else {})


def test_every_variable_named_here_exists() -> None:
    assert AGENT_VARIABLES | STARTER_VARIABLES <= NAMES


def test_one_folder_however_it_is_spelled_is_one_service(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "state")
    spellings = [tmp_path / "state", tmp_path / "link", tmp_path / "state" / ".." / "state"]
    addresses = [str(tmp_path / "index.db")] * len(spellings)
    seen = {of(s, MILVUS_ADDRESS=a) for s, a in zip(spellings, addresses, strict=True)}
    assert len(seen) == 1


def test_another_key_is_another_service_and_no_file_or_name_tells_a_key(tmp_path: Path) -> None:
    given = {"MARKDOWN_RAG_CACHE_DIR": str(tmp_path), "EMBEDDING_PROVIDER": "openai"}
    one, two = (identify(load_settings({**given, "OPENAI_API_KEY": key})) for key in ("sk-secret-1", "sk-secret-2"))
    assert one.fingerprint != two.fingerprint
    assert all(b"secret" not in path.read_bytes() for path in (tmp_path / "service").iterdir())
    other_salt = fingerprint(load_settings({**given, "OPENAI_API_KEY": "sk-secret-1"}), b"another salt....")
    assert other_salt != one.fingerprint


def test_all_who_come_at_once_get_one_salt(tmp_path: Path) -> None:
    settings = load_settings({"MARKDOWN_RAG_CACHE_DIR": str(tmp_path), "OPENAI_API_KEY": "k"})
    seen, gate = [], threading.Barrier(8)

    def come() -> None:
        gate.wait(30)
        seen.append(identify(settings).fingerprint)

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(seen) == 8
    assert set(seen) == {identify(settings).fingerprint}


def test_a_damaged_salt_is_made_anew(tmp_path: Path) -> None:
    settings = load_settings({"MARKDOWN_RAG_CACHE_DIR": str(tmp_path)})
    identify(settings)
    (tmp_path / "service" / "salt").write_bytes(b"short")
    assert identify(settings) == identify(settings)
    assert len((tmp_path / "service" / "salt").read_bytes()) == 16


def test_a_state_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "service").write_text("in the way")
    with pytest.raises(StartError, match="cannot be written"):
        identify(load_settings({"MARKDOWN_RAG_CACHE_DIR": str(tmp_path)}))


def test_a_service_is_given_its_own_variables_and_no_agents(tmp_path: Path) -> None:
    passed = {
        "OPENAI_API_KEY": "k",
        "HTTPS_PROXY": "http://p",
        "GOOGLE_CLOUD_PROJECT": "ours",
        "CLOUDSDK_CONFIG": "/config",
    }
    environ = {"MARKDOWN_WORKSPACE": "/w", "AWS_SECRET": "no", **passed}
    settings = load_settings({**environ, "MARKDOWN_RAG_CACHE_DIR": str(tmp_path)})
    assert service_environment(environ, settings) == {**passed, "MARKDOWN_RAG_CACHE_DIR": str(tmp_path)}


def test_relative_paths_are_meant_from_where_the_agent_was_started(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    given = {
        "MARKDOWN_WORKSPACE": "notes",
        "MARKDOWN_RAG_CACHE_DIR": "/state",
        "EMBEDDING_MODEL": "model",
        "RERANK_MODEL": "model",
        "MILVUS_ADDRESS": "index.db",
        "MILVUS_CA_FILE": "",
        "MILVUS_TARGET_CA_FILE": "certs/ca.pem",
        "CLOUDSDK_CONFIG": "gcloud",
    }
    assert located(given, tmp_path) == given | {
        "MARKDOWN_WORKSPACE": str(tmp_path / "notes"),
        "EMBEDDING_MODEL": str(tmp_path / "model"),
        "RERANK_MODEL": str(tmp_path / "model"),
        "MILVUS_TARGET_CA_FILE": str(tmp_path / "certs/ca.pem"),
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
    }
    assert located({"EMBEDDING_MODEL": "text-embedding-3-small"}, tmp_path) == {
        "EMBEDDING_MODEL": "text-embedding-3-small"
    }


def test_versions_are_ordered_by_their_numbers() -> None:
    assert sorted(["2.10.0", "2.9.1", "10.0.0", "2.9"], key=version_key) == ["2.9", "2.9.1", "2.10.0", "10.0.0"]


def test_nobody_else_can_read_what_is_kept_whatever_the_users_mask_is(
    agent: Opener, state_dir: Path, tmp_path: Path
) -> None:
    vault = write_notes(tmp_path / "vault")
    former = os.umask(0)
    try:
        state = state_dir / "not" / "there" / "yet"
        facade = agent(vault, MARKDOWN_RAG_CACHE_DIR=str(state))
        indexed(facade, vault)
        assert facade.audit(IndexCall(root=str(vault)))["ok"]
        facade.close()
        end_services(state)
        eventually(lambda: engines_of(state), lambda living: not living)  # they take files away with them
    finally:
        os.umask(former)
    kept = [state.parent, state, *state.rglob("*")]
    assert [path for path in kept if path.stat().st_mode & 0o077] == []
