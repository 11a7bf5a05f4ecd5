"""The providers there are, and the model of each that is taken where none is named. Data only: nothing heavy loads."""

from __future__ import annotations

from markdown_rag.errors import SettingsError

USUAL_MODELS = {
    "local": "use-multilingual-v3",
    "openai-compatible": "text-embedding-3-small",
    "openai": "text-embedding-3-small",
    "gemini": "gemini-embedding-001",
    "vertex": "gemini-embedding-001",
    "voyage": "voyage-3",
}
PROVIDERS: tuple[str, ...] = tuple(USUAL_MODELS)


def usual_model(provider: str) -> str:
    """A provider's usual model; SettingsError naming the allowed for an unknown name."""
    if provider not in USUAL_MODELS:
        raise SettingsError(f"EMBEDDING_PROVIDER={provider} is not a provider.", f"Use one of: {', '.join(PROVIDERS)}.")
    return USUAL_MODELS[provider]
