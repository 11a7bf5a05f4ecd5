"""What vendors ask for a million tokens, as their own pages said on AS_OF. Pure.

A guide, not a bill: free allowances, discounts and taxes are left out, tokens are counted in cl100k, and a model whose
price is not on this list has none here. Vertex AI is left out, since Google Cloud bills it partly by characters.
"""

from __future__ import annotations

from dataclasses import dataclass

AS_OF = "2026-11-30"
_OPENAI = "https://developers.openai.com/api/docs/models/"
_VOYAGE = "https://docs.voyageai.com/docs/pricing"
_GEMINI = "https://ai.google.dev/gemini-api/docs/pricing"
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens of a model's input, and where that stands."""

    provider: str
    model: str
    usd: float
    source: str


PRICES: tuple[Price, ...] = (
    Price("openai", "text-embedding-3-small", 0.02, _OPENAI + "text-embedding-3-small"),
    Price("openai", "text-embedding-3-large", 0.13, _OPENAI + "text-embedding-3-large"),
    Price("gemini", "gemini-embedding-001", 0.15, _GEMINI),
    Price("voyage", "voyage-3", 0.06, _VOYAGE),
    Price("voyage", "voyage-3-lite", 0.02, _VOYAGE),
    Price("voyage", "voyage-4-large", 0.12, _VOYAGE),
    Price("voyage", "voyage-4", 0.06, _VOYAGE),
    Price("voyage", "voyage-4-lite", 0.02, _VOYAGE),
    Price("voyage", "voyage-finance-2", 0.12, _VOYAGE),
    Price("voyage", "voyage-law-2", 0.12, _VOYAGE),
)
_BY_MODEL = {(price.provider, price.model): price.usd for price in PRICES}


def cost(provider: str, model: str, tokens: int) -> float | None:
    """US dollars for so many tokens; 0 for a model that runs here, None where the price is not known."""
    if provider == "local":
        return 0.0
    usd = _BY_MODEL.get((provider, model))
    return None if usd is None else usd * tokens / _MILLION
