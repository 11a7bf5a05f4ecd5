"""A provider's name to its embedder: one table, nothing imported before it is chosen."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from markdown_rag.embeddings.base import Embedder, ModelCard
from markdown_rag.embeddings.usual import PROVIDERS as PROVIDERS  # noqa: PLC0414  part of the registry too
from markdown_rag.embeddings.usual import USUAL_MODELS, usual_model
from markdown_rag.embeddings.vendor import Account
from markdown_rag.errors import SettingsError


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """What the user chose. model "": the provider's default. dimension 0: the model's own.

    project, location: of Vertex AI. threads: of the local model. kept: the folder of fetched local models;
    download: whether one may be fetched.
    """

    provider: str = "local"
    model: str = ""
    dimension: int = 0
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    threads: int = 1
    timeout_s: float = 60.0
    project: str = ""
    location: str = "us-central1"
    kept: Path = Path("models")
    download: bool = False


@dataclass(frozen=True, slots=True)
class Provider:
    """A row of the table. variable: where the key comes from ("": needs none). build gets the settings and the row."""

    name: str
    model: str
    variable: str
    build: Callable[[EmbeddingSettings, Provider], Embedder]

    def card(self, settings: EmbeddingSettings, dimensions: dict[str, int]) -> ModelCard:
        """The model as chosen, with the dimension as asked for or as known."""
        model = settings.model or self.model
        return ModelCard(self.name, model, settings.dimension or dimensions.get(model, 0))

    def card_of_server(self, settings: EmbeddingSettings) -> ModelCard:
        """The model behind an address. One that nobody named is whatever that server has: no other server's."""
        server = hashlib.sha256(settings.base_url.rstrip("/").lower().encode()).hexdigest()[:8]
        return ModelCard(self.name, settings.model or f"{self.model}@{server}", settings.dimension)


def _local(settings: EmbeddingSettings, row: Provider) -> Embedder:
    from markdown_rag.embeddings.local import DIMENSION, LocalEmbedder  # noqa: PLC0415  only when chosen
    from markdown_rag.embeddings.onnx import OnnxEmbedder  # noqa: PLC0415

    if settings.model not in ("", row.model):
        return OnnxEmbedder(
            settings.model, settings.dimension, settings.threads, settings.kept, download=settings.download
        )
    if settings.dimension not in (0, DIMENSION):
        raise SettingsError(f"The local model has {DIMENSION} dimensions.", "Leave EMBEDDING_DIM unset.")
    return LocalEmbedder(settings.threads)


def _openai(settings: EmbeddingSettings, row: Provider) -> Embedder:
    from markdown_rag.embeddings.openai import DIMENSIONS, OPENAI_LIMITS, OpenAIEmbedder  # noqa: PLC0415

    return OpenAIEmbedder(
        row.card(settings, DIMENSIONS),
        OPENAI_LIMITS,
        Account("OpenAI", row.variable, settings.api_key),
        base_url=settings.base_url,
        dimension=settings.dimension,
        timeout_s=settings.timeout_s,
    )


def _openai_compatible(settings: EmbeddingSettings, row: Provider) -> Embedder:
    from markdown_rag.embeddings.openai import COMPATIBLE_LIMITS, OpenAIEmbedder  # noqa: PLC0415

    if not settings.base_url:
        raise SettingsError(
            "EMBEDDING_PROVIDER=openai-compatible needs EMBEDDING_BASE_URL.",
            "Set it to the server's address, for example http://localhost:11434/v1 for Ollama.",
        )
    return OpenAIEmbedder(
        row.card_of_server(settings),
        COMPATIBLE_LIMITS,
        Account("The embedding server", row.variable, settings.api_key, required=False),
        model=settings.model or row.model,
        base_url=settings.base_url,
        dimension=settings.dimension,
        timeout_s=settings.timeout_s,
    )


def _voyage(settings: EmbeddingSettings, row: Provider) -> Embedder:
    from markdown_rag.embeddings.voyage import DIMENSIONS, VoyageEmbedder  # noqa: PLC0415

    return VoyageEmbedder(
        row.card(settings, DIMENSIONS),
        Account("Voyage AI", row.variable, settings.api_key),
        base_url=settings.base_url,
        dimension=settings.dimension,
        timeout_s=settings.timeout_s,
    )


def _gemini(settings: EmbeddingSettings, row: Provider) -> Embedder:
    from markdown_rag.embeddings.google import DIMENSIONS, GoogleEmbedder  # noqa: PLC0415

    return GoogleEmbedder(
        row.card(settings, DIMENSIONS),
        Account("The Gemini API", row.variable, settings.api_key),
        None,
        base_url=settings.base_url,
        dimension=settings.dimension,
        timeout_s=settings.timeout_s,
    )


def _vertex(settings: EmbeddingSettings, row: Provider) -> Embedder:
    from markdown_rag.embeddings.google import DIMENSIONS, GoogleEmbedder, VertexProject  # noqa: PLC0415

    return GoogleEmbedder(
        row.card(settings, DIMENSIONS),
        Account("Vertex AI", "GOOGLE_APPLICATION_CREDENTIALS", "", required=False),
        VertexProject(settings.project, settings.location),
        base_url=settings.base_url,
        dimension=settings.dimension,
        timeout_s=settings.timeout_s,
    )


_TABLE = {
    row.name: row
    for row in (
        Provider("local", USUAL_MODELS["local"], "", _local),
        Provider("openai-compatible", USUAL_MODELS["openai-compatible"], "EMBEDDING_API_KEY", _openai_compatible),
        Provider("openai", USUAL_MODELS["openai"], "OPENAI_API_KEY", _openai),
        Provider("gemini", USUAL_MODELS["gemini"], "GEMINI_API_KEY", _gemini),
        Provider("vertex", USUAL_MODELS["vertex"], "", _vertex),
        Provider("voyage", USUAL_MODELS["voyage"], "VOYAGE_API_KEY", _voyage),
    )
}


def provider(name: str) -> Provider:
    """The table's row; SettingsError naming the allowed for an unknown name."""
    usual_model(name)
    return _TABLE[name]


def create_embedder(settings: EmbeddingSettings) -> Embedder:
    """The chosen embedder; asks and loads nothing yet. SettingsError for a combination that cannot work."""
    row = provider(settings.provider)
    return row.build(settings, row)
