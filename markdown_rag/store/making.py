"""How a collection is made: our schema in the client's words, its indexes, and the proof that keywords really work.

A service whose version tells nothing is asked by making the collection itself, so that no other one is ever left
behind: where keywords turn out not to be there, the empty half-made collection goes, and one without them is made.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from markdown_rag.errors import StoreError
from markdown_rag.store import capabilities as engines
from markdown_rag.store import schema
from markdown_rag.store.base import Capabilities, Model
from markdown_rag.store.failures import Failure, Kind
from markdown_rag.store.milvus import Session, library


def make(session: Session, name: str, model: Model) -> None:
    """Create a collection with its indexes; quietly if somebody else does at the same time. Raises StoreError."""
    wanted = session.capabilities()
    failure = _make(session, name, model, wanted)
    if failure is not None and wanted.lexical and not engines.is_certain(wanted) and type(failure.error) is StoreError:
        session.call(lambda client, seconds: client.drop_collection(name, timeout=seconds))
        failure = _make(session, name, model, replace(wanted, lexical=False))
    if failure is not None:
        raise failure.error


def _make(session: Session, name: str, model: Model, wanted: Capabilities) -> Failure | None:
    """Why it could not be made, or None."""
    collection = _schema(library(), model, wanted)
    outcome = session.attempt(
        lambda client, seconds: client.create_collection(
            name,
            schema=collection,
            properties=schema.properties(model) | {schema.BIRTH: secrets.token_hex(8)},
            consistency_level="Strong",  # of reads that name none: the library's pages of a listing
            timeout=seconds,
        ),
        patient=True,
    )
    if isinstance(outcome, Failure):
        return None if outcome.kind is Kind.EXISTS else outcome
    return index(session, name, wanted)


def index(session: Session, name: str, wanted: Capabilities) -> Failure | None:
    """Create the indexes that a collection lacks; why it could not be done, or None."""
    known = set(session.call(lambda client, seconds: client.list_indexes(name, timeout=seconds)))
    for one in engines.indexes(wanted):
        failure = None if one.field in known else _index(session, name, one)
        if failure is not None and failure.kind is not Kind.EXISTS:
            return failure
    return None


def _index(session: Session, name: str, one: engines.Index) -> Failure | None:
    def create(client: Any, seconds: float) -> None:
        params = client.prepare_index_params()
        # Nested on purpose: the library flattens one level, and the embedded engine reads only what is below.
        configuration: dict[str, Any] = {"params": dict(one.params)} if one.params else {}
        if one.metric:
            configuration["metric_type"] = one.metric
        params.add_index(one.field, index_type=one.kind, index_name=one.field, params=configuration)
        # sync=False: the library otherwise sleeps for half a second and asks; loading waits for the index anyway.
        client.create_index(name, params, timeout=seconds, sync=False)

    return session.attempt(create, patient=True)


def _schema(pymilvus: Any, model: Model, wanted: Capabilities) -> Any:
    kinds = pymilvus.DataType
    made = pymilvus.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    for field in schema.FIELDS:
        options: dict[str, Any] = {"max_length": field.size} if field.kind in {"VARCHAR", "ARRAY"} else {}
        if field.kind == "ARRAY":
            options |= {"element_type": kinds.VARCHAR, "max_capacity": schema.MAX_ITEMS}
        if field.kind == "FLOAT_VECTOR":
            options["dim"] = model.dimension
        if field.name == "lexical" and wanted.lexical:
            options |= {"enable_analyzer": True, "analyzer_params": engines.analyzer(wanted)}
        made.add_field(field.name, kinds[field.kind], is_primary=field.primary, **options)
    if wanted.lexical:
        made.add_field(schema.SPARSE_FIELD, kinds.SPARSE_FLOAT_VECTOR)
        made.add_function(
            pymilvus.Function(
                name="bm25",
                function_type=pymilvus.FunctionType.BM25,
                input_field_names=["lexical"],
                output_field_names=[schema.SPARSE_FIELD],
            )
        )
    return made
