"""What a job costs, where that is known."""

from __future__ import annotations

import pytest

from markdown_rag.embeddings.prices import PRICES, cost
from markdown_rag.embeddings.registry import PROVIDERS


@pytest.mark.parametrize(
    ("provider", "model", "tokens", "dollars"),
    [
        ("local", "use-multilingual-v3", 10**9, 0.0),
        ("openai", "text-embedding-3-small", 1_000_000, 0.02),
        ("openai", "text-embedding-3-small", 0, 0.0),
        ("voyage", "voyage-3", 50_000_000, 3.0),
        ("openai-compatible", "text-embedding-3-small", 10, None),
        ("openai", "a-model-of-next-year", 10, None),
        ("vertex", "gemini-embedding-001", 10, None),
    ],
)
def test_a_known_price_is_counted_and_an_unknown_one_is_not_guessed(
    provider: str, model: str, tokens: int, dollars: float | None
) -> None:
    assert cost(provider, model, tokens) == (None if dollars is None else pytest.approx(dollars))


def test_every_price_is_of_a_provider_that_exists_and_says_where_it_stands() -> None:
    assert {price.provider for price in PRICES} <= set(PROVIDERS)
    assert len({(price.provider, price.model) for price in PRICES}) == len(PRICES)
    for price in PRICES:
        assert 0 < price.usd < 10
        assert price.source.startswith("https://")
