"""An agent's settings as the policies of the parts, and as the text that travels with a job. Pure.

Two jobs do the same work only if their texts are equal; whichever process runs a job reads its policies from there.
"""

# ruff: noqa: PLC0415 - the policies' modules load what a server's first reply must not wait for

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

from markdown_rag.embeddings.usual import usual_model
from markdown_rag.paths import names_server
from markdown_rag.settings import Settings

_DATABASE = "default"  # what Milvus calls the one that nobody named
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})

if TYPE_CHECKING:
    from markdown_rag.embeddings.registry import EmbeddingSettings
    from markdown_rag.embeddings.reranker import CrossEncoder
    from markdown_rag.indexing.ignore import ScanPolicy
    from markdown_rag.markdown.chunking import ChunkPolicy
    from markdown_rag.store.opening import StoreSettings


def chunk_policy(settings: Settings) -> ChunkPolicy:
    """How documents are cut."""
    return policies_of(job_policy(settings))[0]


def scan_policy(settings: Settings) -> ScanPolicy:
    """Which files count."""
    return policies_of(job_policy(settings))[1]


def job_policy(settings: Settings) -> str:
    """Both in one text, comparable and readable."""
    return json.dumps(
        {
            "max_tokens": settings.markdown_chunk_size,
            "min_tokens": settings.min_chunk_tokens,
            "overlap": settings.markdown_chunk_overlap,
            "min_final": settings.min_final_tokens,
            "exclude_dirs": settings.markdown_exclude_dirs,
            "exclude_files": settings.markdown_exclude_files,
        },
        sort_keys=True,
    )


def policies_of(text: str) -> tuple[ChunkPolicy, ScanPolicy]:
    """The policies in a job's text."""
    from markdown_rag.indexing.ignore import ScanPolicy
    from markdown_rag.markdown.chunking import ChunkPolicy

    known = json.loads(text)
    scanning = ScanPolicy(tuple(known.pop("exclude_dirs")), tuple(known.pop("exclude_files")))
    return ChunkPolicy(**known), scanning


def store_place(settings: Settings) -> str:
    """Which store an address and a database mean, however they are spelled. Without credentials."""
    address = settings.store_address
    if not names_server(address):
        return os.path.realpath(address)
    scheme, _, rest = address.partition(":")
    if scheme.lower() == "unix":
        return f"unix:{os.path.realpath(rest.removeprefix('//'))} {settings.milvus_database or _DATABASE}"
    server, _, path = rest.removeprefix("//").rpartition("@")[2].partition("/")
    host, _, port = server.lower().rpartition(":") if re.search(r":\d+\Z", server) else (server.lower(), "", "")
    here = "localhost" if host in _LOOPBACK else host
    return f"{here}:{port}/{path.strip('/')} {settings.milvus_database or _DATABASE}"


def job_target(settings: Settings) -> str:
    """What a job writes to, in one comparable text: place, prefix, provider, model, dimension, server of the model."""
    usual = usual_model(settings.embedding_provider)
    model = settings.embedding_model or usual
    # The model in the package has one dimension, whether it is named or not.
    dimension = None if (settings.embedding_provider, model) == ("local", usual) else settings.embedding_dim
    chosen = [settings.embedding_provider, model, dimension, settings.provider_base_url.rstrip("/")]
    return json.dumps([store_place(settings), settings.markdown_collection, *chosen])


def embedding_settings(settings: Settings) -> EmbeddingSettings:
    """Who embeds, and how."""
    from markdown_rag.embeddings.registry import EmbeddingSettings

    return EmbeddingSettings(
        provider=settings.embedding_provider,
        model=settings.embedding_model,
        dimension=settings.embedding_dim or 0,
        base_url=settings.provider_base_url,
        api_key=settings.provider_key.get_secret_value(),
        threads=settings.embedding_threads,
        timeout_s=settings.embedding_timeout_seconds,
        project=settings.vertex_project,
        location=settings.vertex_location,
        kept=settings.state_directory / "models",
        download=settings.embedding_allow_download == "on",
    )


def cross_encoder(settings: Settings) -> CrossEncoder | None:
    """What reads the first hits again, if anything does."""
    from markdown_rag.embeddings.reranker import CrossEncoder

    if not settings.rerank_model:
        return None
    kept, download = settings.state_directory / "models", settings.embedding_allow_download == "on"
    return CrossEncoder(settings.rerank_model, settings.embedding_threads, kept, download=download)


def store_settings(settings: Settings) -> StoreSettings:
    """Where the store is, and how it is used."""
    from markdown_rag.store.opening import StoreSettings

    return StoreSettings(
        address=settings.store_address,
        token=settings.milvus_token.get_secret_value(),
        prefix=settings.markdown_collection,
        insert_batch=settings.milvus_insert_batch,
        timeout_s=settings.milvus_timeout_seconds,
        state_dir=settings.state_directory,
        database=settings.milvus_database,
        ca_file=settings.milvus_ca_file,
        wait_s=settings.milvus_wait_seconds,
    )
