"""Two agents whose variables mean the same store and model have the same jobs; others have nothing in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from markdown_rag.policies import job_target
from markdown_rag.settings import load_settings

SERVER = {"MILVUS_ADDRESS": "http://localhost:19530"}
SAME = {
    "the loopback's number": {"MILVUS_ADDRESS": "http://127.0.0.1:19530"},
    "a slash": {"MILVUS_ADDRESS": "http://LocalHost:19530/"},
    "another scheme": {"MILVUS_ADDRESS": "tcp://localhost:19530"},
    "a password": {"MILVUS_ADDRESS": "http://user:secret@localhost:19530"},
    "the database that nobody names": {**SERVER, "MILVUS_DATABASE": "default"},
    "the usual model by name": {**SERVER, "EMBEDDING_MODEL": "use-multilingual-v3"},
    "the usual model's dimension": {**SERVER, "EMBEDDING_DIM": "512"},
}
OTHER = {
    "another database": {**SERVER, "MILVUS_DATABASE": "b"},
    "another port": {"MILVUS_ADDRESS": "http://localhost:19531"},
    "another host": {"MILVUS_ADDRESS": "http://milvus:19530"},
    "another collection": {**SERVER, "MARKDOWN_COLLECTION": "b"},
    "another model": {**SERVER, "EMBEDDING_PROVIDER": "voyage"},
    "another dimension": {**SERVER, "EMBEDDING_PROVIDER": "voyage", "EMBEDDING_DIM": "256"},
    "the embedded engine": {},
}


def target(variables: dict[str, str]) -> str:
    return job_target(load_settings(variables))


@pytest.mark.parametrize("name", SAME)
def test_spellings_of_one_store_and_model_are_one_target(name: str) -> None:
    assert target(SAME[name]) == target(SERVER)
    assert "secret" not in target(SAME[name])


def test_different_stores_and_models_are_different_targets() -> None:
    targets = [target(SERVER), *(target(variables) for variables in OTHER.values())]
    assert len(set(targets)) == len(targets)


def test_a_folder_is_one_target_whichever_link_leads_to_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert target({"MILVUS_ADDRESS": f"{tmp_path}/link/a.db"}) == target({"MILVUS_ADDRESS": f"{tmp_path}/real/a.db"})
