"""An agent's settings as the policies of the parts, and as the text that travels with a job. Pure.

Two jobs do the same work only if their texts are equal; whichever process runs a job reads its policies from there.
"""

# ruff: noqa: PLC0415 - the policies' modules load what a server's first reply must not wait for

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from markdown_rag.settings import Settings

if TYPE_CHECKING:
    from markdown_rag.embeddings.registry import EmbeddingSettings
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
