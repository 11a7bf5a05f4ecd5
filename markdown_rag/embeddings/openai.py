"""OpenAI, and every server that speaks its API (Ollama, LM Studio, llama.cpp, TEI, vLLM, proxies).

The official SDK with its own retries off. Vectors are asked for in base64, a quarter of the bytes and no parsing; a
server that does not know it is asked for numbers from then on.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from markdown_rag.embeddings.answers import as_matrix
from markdown_rag.embeddings.base import Limits, Matrix, ModelCard, Role
from markdown_rag.embeddings.connections import Connections
from markdown_rag.embeddings.vendor import SHAPE_ERRORS, Account, ask, by_status, unreachable, unreadable
from markdown_rag.errors import EmbeddingAuthError, EmbeddingError, EmbeddingRefused

if TYPE_CHECKING:
    import openai

# "The input must not exceed the max input tokens for the model (8192 tokens for all embedding models) … any array must
# be 2048 dimensions or less … a maximum of 300,000 tokens summed across all inputs in a single request."
# https://platform.openai.com/docs/api-reference/embeddings/create, also in the SDK's docstring of embeddings.create.
OPENAI_LIMITS = Limits(items=2_048, request_tokens=300_000, text_tokens=8_192)
# Servers differ and name no limits; what one refuses as too much is learned from its refusal.
COMPATIBLE_LIMITS = Limits(items=0, request_tokens=0, text_tokens=0)

# The models' own dimensions: https://platform.openai.com/docs/guides/embeddings
DIMENSIONS = {"text-embedding-3-small": 1_536, "text-embedding-3-large": 3_072, "text-embedding-ada-002": 1_536}

_NO_KEY = "no-key"  # the SDK insists on one; servers without keys ignore it
_OUT_OF_CREDIT = "insufficient_quota"


class OpenAIEmbedder:
    """One model behind an OpenAI-shaped API. Documents and queries are embedded alike: the API has no roles.

    dimension: sent when not 0. base_url "": the SDK's own (OPENAI_BASE_URL or OpenAI). model: the name that is sent,
    "" for the card's.
    """

    def __init__(
        self,
        card: ModelCard,
        limits: Limits,
        account: Account,
        *,
        base_url: str,
        dimension: int,
        timeout_s: float,
        model: str = "",
    ) -> None:
        self._card = card
        self._model = model or card.model
        self._limits = limits
        self._account = account
        self._base_url = base_url
        self._dimension = dimension
        self._timeout_s = timeout_s
        self._encoding: Literal["base64", "float"] = "base64"
        self._client: openai.OpenAI | None = None
        self._connections = Connections()
        self._lock = threading.Lock()

    @property
    def card(self) -> ModelCard:
        """Which model."""
        return self._card

    @property
    def limits(self) -> Limits:
        """The API's bounds."""
        return self._limits

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:  # noqa: ARG002  the API has no roles
        """One request (a second one if the server turns out not to know base64)."""
        encoding = self._encoding
        try:
            return self._request(texts, encoding)
        except EmbeddingRefused as error:
            if encoding == "float" or "encoding" not in error.message.lower():
                raise
        self._encoding = "float"
        return self._request(texts, "float")

    def _request(self, texts: Sequence[str], encoding: Literal["base64", "float"]) -> Matrix:
        import openai  # noqa: PLC0415  0.5 s, only when chosen

        client = self._connected()
        size = {"dimensions": self._dimension} if self._dimension else {}
        return ask(
            self._account,
            texts,
            # As it came: the SDK would make an object of every vector, by far the most of what a request costs here.
            lambda: _rows(
                client.embeddings.with_raw_response.create(
                    input=list(texts), model=self._model, encoding_format=encoding, extra_body=size or None
                ).http_response.json()
            ),
            (openai.OpenAIError, *SHAPE_ERRORS),
            self._translate,
        )

    def _connected(self) -> openai.OpenAI:
        import openai  # noqa: PLC0415  0.5 s, only when chosen

        with self._lock:
            if self._client is None:
                own = self._account.required
                # Somebody else's server learns nothing of the user's OpenAI account. Omit is the SDK's word for it.
                foreign: Any = {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
                self._client = openai.OpenAI(
                    api_key=self._account.checked_key() or _NO_KEY,
                    base_url=self._base_url or None,
                    timeout=self._timeout_s,
                    max_retries=0,
                    http_client=self._connections.client(self._timeout_s),
                    default_headers=None if own else foreign,
                )
            return self._client

    def _translate(self, error: Exception, fit: Callable[[str], str]) -> EmbeddingError:
        import openai  # noqa: PLC0415  0.5 s, only when chosen

        if isinstance(error, openai.APIStatusError):
            if error.code == _OUT_OF_CREDIT:
                who = self._account.provider
                return EmbeddingAuthError(f"{who} says that the account has no credit left.", "Check plan and billing.")
            failure = by_status(self._account, error.status_code, fit(_message(error)), error.response.headers)
            if self._dimension and isinstance(failure, EmbeddingRefused) and "dimension" in failure.message.lower():
                return EmbeddingRefused(failure.message, "The model takes no EMBEDDING_DIM: leave it unset.")
            return failure
        if isinstance(error, openai.APIConnectionError):
            return unreachable(self._account, error.__cause__ if isinstance(error.__cause__, Exception) else error)
        return unreadable(self._account, error)

    def close(self) -> None:
        """End requests under way and close all connections; a later request opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        self._connections.break_off()
        if client:
            client.close()


def _message(error: openai.APIStatusError) -> str:
    body = error.body if isinstance(error.body, dict) else {}
    return str(body.get("message") or error.message)


def _rows(response: Any) -> Matrix:
    """Vectors in the order of their index. Gemini leaves out a 0, others all of them: those are in order."""
    entries = sorted(response["data"], key=lambda entry: int(entry.get("index") or 0))
    return as_matrix([_vector(entry["embedding"]) for entry in entries])


def _vector(value: Any) -> Any:
    return np.frombuffer(base64.b64decode(value), dtype="<f4") if isinstance(value, str) else value
