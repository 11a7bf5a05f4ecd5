"""What messages call the settings of a store: those of the index, or those of the place that it is copied to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Given:
    """What a user set to name a store's address, token, database and certificates; moves: what names another place."""

    address: str
    token: str
    database: str
    ca_file: str
    moves: str


OF_INDEX = Given(
    "MILVUS_ADDRESS", "MILVUS_TOKEN", "MILVUS_DATABASE", "MILVUS_CA_FILE", "MILVUS_ADDRESS or MARKDOWN_RAG_CACHE_DIR"
)
OF_TARGET = Given("--to", "MILVUS_TARGET_TOKEN", "MILVUS_TARGET_DATABASE", "MILVUS_TARGET_CA_FILE", "--to")
