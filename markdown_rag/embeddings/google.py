"""Google's models through its one SDK: the Gemini API (a key) and Vertex AI (a project and its credentials).

Retries of the SDK stay off. gemini-embedding-001 and the text-embedding models are told the role by a task type;
gemini-embedding-2 ignores task types and reads the role from the text's first words. Vertex AI is told not to truncate;
the Gemini API has no such switch, texts are cut to its limit before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markdown_rag.embeddings.answers import as_matrix
from markdown_rag.embeddings.base import Limits, Matrix, ModelCard, Role
from markdown_rag.embeddings.connections import Connections
from markdown_rag.embeddings.vendor import SHAPE_ERRORS, Account, ask, by_status, unreachable, unreadable
from markdown_rag.errors import EmbeddingAuthError, EmbeddingError

if TYPE_CHECKING:
    import httpx2
    from google import genai

# https://ai.google.dev/gemini-api/docs/embeddings: input limit 2,048 tokens (gemini-embedding-2: 8,192), output 3,072.
# The API's own 400 on more: "BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch".
_GEMINI_ITEMS = 100
_TEXT_TOKENS, _TEXT_TOKENS_SECOND = 2_048, 8_192
# https://cloud.google.com/vertex-ai/generative-ai/docs/embeddings/get-text-embeddings: 250 input texts and 20,000 input
# tokens a request, 2,048 tokens a text; "gemini-embedding-001 supports one instance per request".
_VERTEX_ITEMS, _VERTEX_ITEMS_GEMINI = 250, 1
_VERTEX_REQUEST_TOKENS = 20_000
# The same pages, "output dimensions".
DIMENSIONS = {
    "gemini-embedding-001": 3_072,
    "gemini-embedding-2": 3_072,
    "text-embedding-005": 768,
    "text-multilingual-embedding-002": 768,
}
_TASKS = {Role.DOCUMENT: "RETRIEVAL_DOCUMENT", Role.QUERY: "RETRIEVAL_QUERY"}
# https://ai.google.dev/gemini-api/docs/embeddings#gemini-embedding-2: how texts for retrieval are to be written.
_PREFIXES = {Role.DOCUMENT: "title: none | text: ", Role.QUERY: "task: search result | query: "}
_BAD_KEY = "API_KEY_INVALID"  # the Gemini API says so with status 400


@dataclass(frozen=True, slots=True)
class VertexProject:
    """Where Vertex AI runs; project "" is the one of the credentials."""

    project: str
    location: str


def _reads_prefix(model: str) -> bool:
    """Whether the model takes the role from the text (everything after the first Gemini embedding model)."""
    name = model.rsplit("/", 1)[-1]
    return name.startswith("gemini") and not name.startswith(("gemini-embedding-001", "gemini-embedding-exp"))


def limits_of(model: str, *, vertex: bool) -> Limits:
    """The bounds of a model."""
    text_tokens = _TEXT_TOKENS_SECOND if _reads_prefix(model) else _TEXT_TOKENS
    if not vertex:
        return Limits(_GEMINI_ITEMS, 0, text_tokens)
    gemini = "gemini" in model
    return Limits(_VERTEX_ITEMS_GEMINI if gemini else _VERTEX_ITEMS, _VERTEX_REQUEST_TOKENS, text_tokens)


class GoogleEmbedder:
    """One Google model. vertex None: the Gemini API. dimension: sent when not 0. base_url "": Google's own."""

    def __init__(
        self,
        card: ModelCard,
        account: Account,
        vertex: VertexProject | None,
        *,
        base_url: str,
        dimension: int,
        timeout_s: float,
    ) -> None:
        self._card = card
        self._account = account
        self._vertex = vertex
        self._base_url = base_url
        self._dimension = dimension
        self._timeout_s = timeout_s
        self._client: genai.Client | None = None
        self._connections = Connections()
        self._http: httpx2.Client | None = None
        self._lock = threading.Lock()

    @property
    def card(self) -> ModelCard:
        """Which model."""
        return self._card

    @property
    def limits(self) -> Limits:
        """The API's bounds."""
        return limits_of(self._card.model, vertex=self._vertex is not None)

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:
        """One request."""
        import google.auth.exceptions  # noqa: PLC0415  only when chosen
        import httpx2  # noqa: PLC0415  comes with the SDK
        from google.genai import errors  # noqa: PLC0415  1 s, only when chosen

        foreign = (errors.APIError, httpx2.HTTPError, google.auth.exceptions.GoogleAuthError, *SHAPE_ERRORS)
        return ask(self._account, texts, lambda: self._request(texts, role), foreign, self._translate)

    def _request(self, texts: Sequence[str], role: Role) -> Matrix:
        from google.genai import types  # noqa: PLC0415  1 s, only when chosen

        by_prefix = _reads_prefix(self._card.model)
        prefix = _PREFIXES[role] if by_prefix else ""
        config = types.EmbedContentConfig(
            task_type=None if by_prefix else _TASKS[role],
            output_dimensionality=self._dimension or None,
            auto_truncate=False if self._vertex else None,
        )
        # As contents of their own: newer models read a list of plain texts as one text.
        contents = [types.Content(parts=[types.Part(text=prefix + text)]) for text in texts]
        answer = self._connected().models.embed_content(model=self._card.model, contents=contents, config=config)
        return as_matrix([list(entry.values or ()) for entry in answer.embeddings or ()])

    def _connected(self) -> genai.Client:
        from google import genai  # noqa: PLC0415  1 s, only when chosen
        from google.genai import types  # noqa: PLC0415

        with self._lock:
            if self._client is None:
                self._http = self._connections.client(self._timeout_s)
                options = types.HttpOptions(
                    base_url=self._base_url or None, timeout=int(self._timeout_s * 1000), httpx_client=self._http
                )
                if self._vertex is None:
                    self._client = genai.Client(
                        vertexai=False, api_key=self._account.checked_key(), http_options=options
                    )
                else:
                    self._client = self._vertex_client(self._vertex, options)
            return self._client

    def _vertex_client(self, vertex: VertexProject, options: Any) -> genai.Client:
        import google.auth  # noqa: PLC0415  only when chosen
        from google import genai  # noqa: PLC0415  1 s, only when chosen

        credentials, own = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
        project = vertex.project or own
        if not project:
            raise EmbeddingAuthError("The Google credentials name no project.", "Set VERTEX_PROJECT.")
        return genai.Client(
            vertexai=True, project=project, location=vertex.location, credentials=credentials, http_options=options
        )

    def _translate(self, error: Exception, fit: Callable[[str], str]) -> EmbeddingError:
        import google.auth.exceptions  # noqa: PLC0415  only when chosen
        import httpx2  # noqa: PLC0415  comes with the SDK
        from google.genai import errors  # noqa: PLC0415  1 s, only when chosen

        if isinstance(error, errors.APIError):
            if _BAD_KEY in str(error.details):
                return by_status(self._account, 401, fit(str(error.message or "")))
            headers = getattr(error.response, "headers", None)
            return by_status(self._account, error.code, fit(str(error.message or "")), headers)
        if isinstance(error, google.auth.exceptions.TransportError):
            return unreachable(self._account, error)
        if isinstance(error, google.auth.exceptions.GoogleAuthError):
            return EmbeddingAuthError(
                f"Google's credentials cannot be used ({type(error).__name__}).",
                "Set GOOGLE_APPLICATION_CREDENTIALS to a credentials file, or use gcloud's default login.",
            )
        if isinstance(error, httpx2.HTTPError):
            return unreachable(self._account, error)
        return unreadable(self._account, error)

    def close(self) -> None:
        """End requests under way and close all connections; a later request opens new ones."""
        with self._lock:
            http, self._http, self._client = self._http, None, None
        self._connections.break_off()
        if http:
            http.close()
