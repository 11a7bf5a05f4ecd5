"""Voyage AI through its SDK, with its retries off and its silent truncation off.

The SDK keeps one HTTP session a thread and never closes it; here all threads share one. Its token counter is never
called: it downloads a tokenizer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from markdown_rag.embeddings.answers import as_matrix
from markdown_rag.embeddings.base import Limits, Matrix, ModelCard, Role
from markdown_rag.embeddings.connections import Connections
from markdown_rag.embeddings.vendor import SHAPE_ERRORS, Account, ask, by_status, unreachable, unreadable
from markdown_rag.errors import EmbeddingError, EmbeddingRefused

if TYPE_CHECKING:
    import requests

# https://docs.voyageai.com/reference/embeddings-api: "The maximum length of the list is 1,000. The total number of
# tokens in the list is at most 1M for voyage-4-lite and voyage-3.5-lite; 320K for voyage-4, voyage-3.5 and voyage-2;
# and 120K for voyage-4-large, voyage-3-large, voyage-code-3, voyage-finance-2, and voyage-law-2."
_ITEMS = 1_000
_REQUEST_TOKENS = {
    "voyage-4-lite": 1_000_000,
    "voyage-3.5-lite": 1_000_000,
    "voyage-4": 320_000,
    "voyage-3.5": 320_000,
    "voyage-2": 320_000,
}
_REQUEST_TOKENS_LEAST = 120_000
# https://docs.voyageai.com/docs/embeddings, column "Context Length (tokens)"
_TEXT_TOKENS = {"voyage-law-2": 16_000, "voyage-large-2": 16_000, "voyage-code-2": 16_000, "voyage-2": 4_000}
_TEXT_TOKENS_USUAL = 32_000
_POOL = 32  # connections kept open; more requests at once open more
# The same page, column "Embedding Dimension", the default of each model.
DIMENSIONS = {
    "voyage-4-large": 1_024,
    "voyage-4": 1_024,
    "voyage-4-lite": 1_024,
    "voyage-3-large": 1_024,
    "voyage-3.5": 1_024,
    "voyage-3.5-lite": 1_024,
    "voyage-3": 1_024,
    "voyage-3-lite": 512,
    "voyage-code-3": 1_024,
    "voyage-finance-2": 1_024,
    "voyage-law-2": 1_024,
}


def limits_of(model: str) -> Limits:
    """The bounds of a model; the least of all for a model that is not in the table."""
    return Limits(
        _ITEMS, _REQUEST_TOKENS.get(model, _REQUEST_TOKENS_LEAST), _TEXT_TOKENS.get(model, _TEXT_TOKENS_USUAL)
    )


class VoyageEmbedder:
    """One Voyage model. dimension: sent when not 0. base_url "": Voyage's own."""

    def __init__(self, card: ModelCard, account: Account, *, base_url: str, dimension: int, timeout_s: float) -> None:
        self._card = card
        self._account = account
        self._base_url = base_url
        self._dimension = dimension
        self._timeout_s = timeout_s
        self._client: Any = None
        self._lock = threading.Lock()

    @property
    def card(self) -> ModelCard:
        """Which model."""
        return self._card

    @property
    def limits(self) -> Limits:
        """The API's bounds."""
        return limits_of(self._card.model)

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:
        """One request."""
        import voyageai.error  # noqa: PLC0415  0.6 s, only when chosen

        client = self._connected()
        return ask(
            self._account,
            texts,
            lambda: as_matrix(
                client.embed(
                    list(texts),
                    model=self._card.model,
                    input_type=role.value,
                    truncation=False,
                    output_dimension=self._dimension or None,
                ).embeddings
            ),
            (voyageai.error.VoyageError, ImportError, *SHAPE_ERRORS),
            self._translate,
        )

    def _connected(self) -> Any:
        import voyageai  # noqa: PLC0415  0.6 s, only when chosen

        with self._lock:
            if self._client is None:
                voyageai.requestssession = _shared_session()
                # It logs the texts it sends and what servers say of keys.
                logging.getLogger("voyage").setLevel(logging.WARNING)
                self._client = voyageai.Client(
                    api_key=self._account.checked_key(),
                    max_retries=0,
                    timeout=self._timeout_s,
                    base_url=self._base_url or None,
                )
            return self._client

    def _translate(self, error: Exception, fit: Callable[[str], str]) -> EmbeddingError:
        import voyageai.error as voyage  # noqa: PLC0415  0.6 s, only when chosen

        if isinstance(error, ImportError):
            return EmbeddingRefused(
                f"{self._card.model} is a model that Voyage's library runs itself, which is not supported here.",
                "Choose a hosted model in EMBEDDING_MODEL.",
            )
        if isinstance(error, (voyage.Timeout, voyage.APIConnectionError)):
            return unreachable(self._account, error.__cause__ if isinstance(error.__cause__, Exception) else error)
        if isinstance(error, voyage.VoyageError) and (error.http_status or 0) >= 400:
            body = error.json_body if isinstance(error.json_body, dict) else {}
            return by_status(self._account, error.http_status, fit(str(body.get("detail", ""))), error.headers)
        return unreadable(self._account, error)

    def close(self) -> None:
        """End requests under way and close all connections; a later request opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            _CONNECTIONS.break_off()
            _shared_session().close()


_CONNECTIONS = Connections()


@lru_cache(maxsize=1)
def _shared_session() -> requests.Session:
    """The process's one session for Voyage; closing it only drops its connections, it can be used again."""
    import requests  # noqa: PLC0415  comes with the SDK
    from urllib3.connection import HTTPConnection, HTTPSConnection  # noqa: PLC0415
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool  # noqa: PLC0415

    class Plain(HTTPConnection):
        def connect(self) -> None:
            super().connect()
            _CONNECTIONS.watch(self.sock)

    class Secure(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            _CONNECTIONS.watch(self.sock)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    session = requests.Session()
    for scheme in ("http://", "https://"):
        adapter = requests.adapters.HTTPAdapter(pool_maxsize=_POOL)
        adapter.poolmanager.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
        session.mount(scheme, adapter)
    return session
