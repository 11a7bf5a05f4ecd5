"""Milvus Lite as the embedded engine: with messages.py the only place that knows the library (pinned to 3.2).

What is added to it, by subclasses put where it looks its own classes up:

- turns: rows are inserted and flushed in small pieces, between which waiting searches go first;
- reading: answers come from a view of living rows (living.py), keyword statistics from all rows (postings.py);
- messages: rows are taken from requests and put into answers as columns (messages.py);
- flushing: as columns, before the rows in memory slow searches down, never while a merge of segments would hold it up;
- keeping: what is acknowledged survives a disk that is full, and a directory taken away is left alone (custody.py).

What is stored is the library's own format, written by its own code: a stock Milvus Lite opens the directory.
"""

from __future__ import annotations

import functools
import logging
import threading
from concurrent import futures
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from markdown_rag.store import custody, messages, schema
from markdown_rag.store.gate import written
from markdown_rag.store.living import Filter, Living

if TYPE_CHECKING:
    from markdown_rag.store.gate import Activity, Gate
    from markdown_rag.store.rwlock import ReadersFirstLock

log = logging.getLogger("markdown_rag.engine")

SLICE = 25  # rows inserted in one turn: 7 ms that a search may wait; longer turns are not quicker
WORKERS = 16
WARM_WAIT_S = 1.0  # for a turn to prepare the next search in; without one that search does it
MESSAGE_BYTES = 256 * 1024 * 1024


def serve_database(database: Any, gate: Gate) -> Any:
    """A gRPC server over the database, not yet bound or started."""
    import grpc  # noqa: PLC0415 - here and below: loaded by the engine's process only, after it has reported its pid
    from milvus_lite.adapter.grpc.servicer import MilvusServicer  # noqa: PLC0415
    from pymilvus.grpc_gen import milvus_pb2_grpc  # noqa: PLC0415

    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="call"),
        interceptors=[gate],
        options=[
            ("grpc.max_receive_message_length", MESSAGE_BYTES),
            ("grpc.max_send_message_length", MESSAGE_BYTES),
            # pymilvus pings every 10 s; the default answer to that is GOAWAY and a reconnect.
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
            ("grpc.http2.max_ping_strikes", 0),
            ("grpc.so_reuseport", 0),
        ],
    )
    milvus_pb2_grpc.add_MilvusServiceServicer_to_server(MilvusServicer(database), server)
    return server


def open_database(data_dir: Path, turns: ReadersFirstLock, activity: Activity, reach: Path | None = None) -> Any:
    """The library's database over a directory, with ``is_whole`` beside the library's methods.

    reach: another path to data_dir for the library; the current directory, once removed, cannot be made again under
    its name. Raises the library's errors (locked, damaged) and OSError.
    """
    from milvus_lite import db  # noqa: PLC0415
    from milvus_lite.adapter.grpc.translators import records  # noqa: PLC0415
    from milvus_lite.analyzer import protocol  # noqa: PLC0415
    from milvus_lite.engine import collection, recovery  # noqa: PLC0415

    opening = threading.Lock()

    class Database(custody.database_class(db, data_dir)):  # type: ignore[misc]
        def get_collection(self, *arguments: Any, **options: Any) -> Any:
            with opening:  # two threads that open one collection would give it two logs
                return super().get_collection(*arguments, **options)

    opened: list[Any] = []
    kept = custody.collection_class(collection.Collection, lambda: not opened or opened[0].is_whole())
    db.Collection = _collection_class(kept, turns, activity)
    collection.MemTable = recovery.MemTable = _memory_class()
    collection.validate_record = messages.record_check()
    if not hasattr(records._build_field_data, "usual"):  # noqa: SLF001
        records._build_field_data = messages.field_builder(records._build_field_data)  # noqa: SLF001
        records._extract_vector_column = messages.vector_reader(records._extract_vector_column)  # noqa: SLF001
    if not hasattr(protocol.term_to_id, "cache_info"):
        # A loop over bytes in Python: words come again, so remembering them saves a third of an insert.
        protocol.term_to_id = functools.lru_cache(maxsize=100_000)(protocol.term_to_id)
    opened.append(Database(str(reach or data_dir)))
    return opened[0]


def _memory_class() -> type:
    """The library's rows in memory, flushed as columns: it goes through Python values otherwise (0.2 ms a row)."""
    from milvus_lite.storage.memtable import MemTable  # noqa: PLC0415

    class ColumnarMemTable(MemTable):  # type: ignore[misc]
        def _build_data_table(self, rows: list[tuple[int, int]]) -> Any:
            table = self.to_arrow_table()
            if table.num_rows != len(rows):  # several partitions, which we do not use
                return super()._build_data_table(rows)
            return table.select(self._data_schema.names).cast(self._data_schema)

    return ColumnarMemTable


def _collection_class(kept: type, turns: ReadersFirstLock, activity: Activity) -> type:
    """The collection of custody.py, written in turns and read from a view of its living rows."""
    from milvus_lite.analyzer.sparse import compute_tf  # noqa: PLC0415
    from milvus_lite.search.filter import evaluate_mask  # noqa: PLC0415

    class TurnTaking(kept):  # type: ignore[misc]
        """Writing."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            self._upkeep = 0  # merges that are scheduled or at work
            self._living = Living(self, "vector", schema.SPARSE_FIELD)
            super().__init__(*arguments, **options)  # starts its background work

        def insert(self, records: list[dict[str, Any]], *arguments: Any, **options: Any) -> list[Any]:
            keys: list[Any] = []
            for start in range(0, len(records), SLICE):
                with written(turns, activity):
                    keys += super().insert(records[start : start + SLICE], *arguments, **options)
                if self._is_full():
                    with written(turns, activity):
                        self._flush_if_full()
            return keys

        def delete(self, *arguments: Any, **options: Any) -> int:
            deleted: int = super().delete(*arguments, **options)  # the gate has taken the turn
            self._flush_if_full()
            return deleted

        def _is_full(self) -> bool:
            # A merge holds the library's lock: a flush would wait for it, and all searches for the flush.
            return not self._upkeep and self._memtable.size() >= activity.unflushed_limit()

        def _flush_if_full(self) -> None:
            if self._is_full():
                try:
                    super().flush()
                except OSError:  # what was written is in the log and stays readable; who asks for a flush is told
                    log.warning("rows could not be written into files", exc_info=True)

        def flush(self) -> None:
            while True:
                self._wait_for_bg()
                with written(turns, activity):
                    if not self._upkeep:
                        super().flush()
                        return

        def _build_or_load_segment_index(self, *_: Any) -> None:
            """Nothing: our reads are exact passes over the vectors, an index would be a second copy of them."""

        def _schedule_bg_maintenance(self) -> None:
            self._living.remember()  # after a flush, before a merge can hold the lock
            if not self._bg_closed:
                self._upkeep += 1
                self._bg_executor.submit(self._maintain)

        def _maintain(self) -> None:
            try:
                activity.give_way()
                self._bg_compact_and_index()
                self._warm()
            finally:
                self._upkeep -= 1

        def _warm(self) -> None:
            """Do what the next search would have to. Who drops a collection waits for us in a turn of its own."""
            with turns.read(within=WARM_WAIT_S) as held:
                view = self._living.view() if held else None
            if view is not None:
                view.warm()

    class LivingCollection(TurnTaking):
        """Reading."""

        @property
        def num_entities(self) -> int:
            return self._living.view().count()

        def load(self) -> None:
            super().load()
            if not self._bg_closed:
                self._bg_executor.submit(self._warm)

        def query(
            self, expr: str | None = None, output_fields: list[str] | None = None, limit: int | None = None,
            offset: int = 0, order_by_pk: bool = False, **_: Any,
        ) -> list[dict[str, Any]]:  # fmt: skip
            self._require_loaded()
            view, page = self._living.view(), slice(offset, None if limit is None else offset + limit)
            found, columns = view.select(self._passing(expr)), self._columns(output_fields)
            if not order_by_pk:
                return view.read(found[page], columns)
            return sorted(view.read(found, columns), key=lambda row: row[self._pk_name])[page]

        def get(self, pks: list[str], output_fields: list[str] | None = None, **_: Any) -> list[dict[str, Any]]:
            self._require_loaded()
            view = self._living.view()
            return view.read(view.locate(pks), self._columns(output_fields))

        def search(  # noqa: PLR0917 - the library's signature
            self, query_vectors: list[Any], top_k: int = 10, metric_type: str | None = None,
            output_fields: list[str] | None = None, anns_field: str | None = None, expr: str | None = None,
            offset: int = 0, **_: Any,
        ) -> list[list[dict[str, Any]]]:  # fmt: skip
            self._require_loaded()
            view, passing = self._living.view(), self._passing(expr)
            answers = []
            for query in query_vectors:
                if metric_type == "BM25":
                    terms = compute_tf(self._bm25_analyzers[anns_field].analyze(query))
                    found, sign = (
                        view.keywords(terms, top_k + offset, passing),
                        -1.0,
                    )  # distances, as the library has it
                else:
                    found, sign = view.dense(np.asarray(query, dtype=np.float32), top_k + offset, passing), 1.0
                found = found[offset:]
                rows = view.read(found, self._columns(output_fields))
                pairs = zip(found, rows, strict=True)
                answers.append(
                    [{"id": row[self._pk_name], "distance": sign * one.score, "entity": row} for one, row in pairs]
                )
            return answers

        def _passing(self, expression: str | None) -> Filter | None:
            if not expression:
                return None
            compiled = self._compile_filter(expression)
            return lambda table: evaluate_mask(compiled, table)

        def _columns(self, output_fields: list[str] | None) -> list[str]:
            """The columns to read, always with the key."""
            known = [field.name for field in self._schema.fields]
            return known if output_fields is None else [n for n in known if n in output_fields or n == self._pk_name]

    return LivingCollection
