"""The store over Milvus, embedded or remote: one collection of one model. Implements Store.

The engines' differences end here: who answers how consistently, in which windows, with which sign of a score, and
whether writing an id again replaces (embedded) or doubles (a server's ``insert``, not its ``upsert``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from markdown_rag.store import columns, schema
from markdown_rag.store import rows as conversion
from markdown_rag.store.base import (
    EVERYTHING,
    Capabilities,
    FileEntry,
    FileLinks,
    Health,
    Match,
    Model,
    Record,
    RowKey,
    Vector,
    Where,
)
from markdown_rag.store.capabilities import SPARSE_FIELD, profile, vector_search
from markdown_rag.store.endpoint import read_changes
from markdown_rag.store.filters import ANY_ROW, CARRIES_LINKS, COMMITTING_ROW, conjunction, one_of_texts, to_expression
from markdown_rag.store.handle import Handle
from markdown_rag.store.listing import a_page, embedded, in_pages, pieces
from markdown_rag.store.milvus import Session
from markdown_rag.store.target import Target

SESSION, BOUNDED = "Session", "Bounded"


class MilvusStore:
    """One collection at one address.

    insert_rows: most rows of one insert request. seconds, wait_s: as a Session's. Connects on first use.
    """

    def __init__(
        self, target: Target, prefix: str, model: Model, *, insert_rows: int, seconds: float, wait_s: float = 0.0
    ) -> None:
        self._session = Session(target, seconds, wait_s)
        self._model = model
        self._name = schema.collection_name(prefix, model)
        self._insert_rows = insert_rows
        self._handle = Handle(self._session, self._name, model)

    @property
    def model(self) -> Model:
        """The model this store was opened for."""
        return self._model

    @property
    def collection(self) -> str:
        """The collection's name."""
        return self._name

    def capabilities(self) -> Capabilities:
        """What the server can do (connects on first use)."""
        return self._handle.capabilities()

    def ensure(self) -> None:
        """Create the collection if it is missing and load it; StoreMismatch if it means something else."""
        self._handle.ensure()

    def identity(self) -> str:
        """What tells this collection from one that is made anew under its name; "" while there is none."""
        return self._handle.identity()

    def insert(self, records: Sequence[Record]) -> None:
        """Store rows in the given order, in requests bounded by rows and bytes."""
        sized = [conversion.to_row(record, self._model.dimension) for record in records]
        if not sized:
            return
        if not self._handle.ready:
            self.ensure()
        for piece in schema.batches([size for _, size in sized], self._insert_rows):
            self._insert_rows_of([row for row, _ in sized[piece]])

    def _insert_rows_of(self, data: list[conversion.Row]) -> None:
        upsert = profile(self.capabilities()).write == "upsert"
        request = columns.insertion(self._name, data, self._model.dimension, upsert=upsert)
        self._handle.write(lambda client, seconds: columns.write(client, request, seconds))

    def delete(self, ids: Sequence[str]) -> None:
        """Remove rows by primary key."""
        if not ids or not self._handle.open():
            return
        for piece in pieces(list(dict.fromkeys(ids))):
            self._delete_piece(piece)

    def _delete_piece(self, ids: list[str]) -> None:
        self._handle.write(lambda client, seconds: client.delete(self._name, ids=ids, timeout=seconds))

    def flush(self) -> None:
        """Make what was written durable and quick to search."""
        if self._handle.open():
            self._session.call(lambda client, seconds: client.flush(self._name, timeout=seconds), patient=True)

    def catalog(self, where: Where = EVERYTHING) -> list[FileEntry]:
        """The ``ord == 0`` rows, all generations."""
        expression = conjunction(COMMITTING_ROW, to_expression(where))
        return [conversion.to_entry(row) for row in self._list(expression, schema.CATALOG_FIELDS)]

    def commits(self, where: Where = EVERYTHING) -> list[RowKey]:
        """Keys of the ``ord == 0`` rows, as a search sees them."""
        expression = conjunction(COMMITTING_ROW, to_expression(where))
        return [conversion.to_key(row) for row in self._list(expression, schema.KEY_FIELDS, exact=False)]

    def links(self, where: Where = EVERYTHING) -> list[FileLinks]:
        """What the rows that carry links say, all generations."""
        expression = conjunction(CARRIES_LINKS, to_expression(where))
        return [conversion.to_links(row) for row in self._list(expression, schema.LINK_FIELDS)]

    def keys(self, where: Where = EVERYTHING) -> Iterator[RowKey]:
        """Every stored row's key."""
        return map(conversion.to_key, self._list(to_expression(where) or ANY_ROW, schema.KEY_FIELDS))

    def rows(self, where: Where) -> Iterator[Match]:
        """Stored rows in reading order."""
        for _, row in self._rows(where, schema.MATCH_FIELDS):
            yield conversion.to_match(row, 0.0)

    def records(self, where: Where) -> Iterator[Record]:
        """Whole rows in reading order."""
        for _, row in self._rows(where, ("id", *schema.RECORD_FIELDS)):
            yield conversion.to_record(row)

    def vectors(self, where: Where) -> Iterator[tuple[RowKey, str, Vector]]:
        """Keys, text hashes and stored vectors in reading order."""
        for key, row in self._rows(where, ("id", "text_hash", "vector")):
            yield key, row["text_hash"], np.asarray(row["vector"], dtype=np.float32)

    def holding(self, text_hashes: Collection[str]) -> list[tuple[RowKey, str]]:
        """Keys and text hashes of rows with these texts; of each 500 texts at most as many as a page holds."""
        found: list[dict[str, Any]] = []
        for piece in pieces(list(dict.fromkeys(text_hashes))):
            found += self._list(one_of_texts(piece), (*schema.KEY_FIELDS, "text_hash"), only_a_page=True)
        return [(conversion.to_key(row), row["text_hash"]) for row in found]

    def get(self, ids: Sequence[str]) -> list[Match]:
        """Rows by primary key."""
        found = self._get(list(dict.fromkeys(ids)), schema.MATCH_FIELDS)
        return [conversion.to_match(row, 0.0) for row in found]

    def dense(self, vector: Vector, limit: int, where: Where = EVERYTHING) -> list[Match]:
        """The rows with the largest inner product, best first."""
        query = np.asarray(vector, dtype=np.float32)
        return self._search("vector", query, limit, where, vector_search)

    def lexical(self, tokens: str, limit: int, where: Where = EVERYTHING) -> list[Match]:
        """The rows with the best BM25 score, best first; [] without the capability."""
        if not tokens.strip() or not self.capabilities().lexical:
            return []
        return self._search(SPARSE_FIELD, tokens, limit, where, lambda _: {"metric_type": "BM25"})

    def change_count(self) -> int | None:
        """The embedded engine's count of changes; None on servers."""
        data_dir = self._session.target.data_dir
        return None if data_dir is None else read_changes(data_dir)

    def count(self, where: Where = EVERYTHING) -> int:
        """How many rows are stored."""
        expression = to_expression(where)
        if expression and self.capabilities().embedded:  # its count(*) with a filter reads whole rows
            return len(self._list(expression, ("id",)))
        found = self._handle.read(
            lambda client, seconds: client.query(
                self._name, expression, output_fields=["count(*)"], consistency_level="Strong", timeout=seconds
            )
        )
        return int(found[0]["count(*)"]) if found else 0

    def workspaces(self) -> dict[str, int]:
        """Workspace ids that have committed rows, with the number of files."""
        files = {(row["workspace"], row["path"]) for row in self._list(COMMITTING_ROW, ("workspace", "path"))}
        return dict(Counter(workspace for workspace, _ in files))

    def health(self) -> Health:
        """Connect and say what is there."""
        capabilities = self.capabilities()
        return Health(capabilities, self._session.target.shown, self._name, self.count())

    def close(self) -> None:
        """Let go of the connection."""
        self._session.close()

    def _list(
        self, expression: str, fields: Sequence[str], *, exact: bool = True, only_a_page: bool = False
    ) -> list[dict[str, Any]]:
        """All rows of a filter, few fields; exact: with every acknowledged write."""
        if not self._handle.open():
            return []
        whole = embedded if self.capabilities().embedded else in_pages
        listing = a_page if only_a_page else whole
        return (
            self._handle.read(
                lambda client, seconds: listing(client, self._name, expression, fields, seconds, exact=exact)
            )
            or []
        )

    def _rows(self, where: Where, fields: Sequence[str]) -> Iterator[tuple[RowKey, dict[str, Any]]]:
        """Rows in reading order: keys first, then the rest by id in pieces; what goes meanwhile is left out."""
        keys = sorted(self.keys(where), key=conversion.reading_order)
        for piece in pieces(keys):
            found = {row["id"]: row for row in self._get([key.id for key in piece], fields)}
            yield from ((key, found[key.id]) for key in piece if key.id in found)

    def _get(self, ids: Sequence[str], fields: Sequence[str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for piece in pieces(ids):
            found += self._get_piece(piece, fields)
        return found

    def _get_piece(self, ids: Sequence[str], fields: Sequence[str]) -> list[dict[str, Any]]:
        found = self._handle.read(
            lambda client, seconds: client.get(
                self._name, list(ids), output_fields=list(fields), consistency_level=SESSION, timeout=seconds
            )
        )
        return found or []

    def _search(
        self, field: str, query: Any, limit: int, where: Where, params: Callable[[Capabilities], dict[str, Any]]
    ) -> list[Match]:
        if limit <= 0 or not self._handle.open():
            return []
        capabilities = self.capabilities()
        found = self._handle.read(
            lambda client, seconds: client.search(
                self._name,
                data=[query],
                anns_field=field,
                limit=min(limit, schema.WINDOW),
                filter=to_expression(where),
                output_fields=list(schema.MATCH_FIELDS),
                search_params=params(capabilities),
                consistency_level=BOUNDED,
                timeout=seconds,
            )
        )
        # The embedded engine reports a keyword score as a distance: the negative of what a server reports.
        sign = -1.0 if capabilities.embedded and field == SPARSE_FIELD else 1.0
        return [] if found is None else columns.matches(found, sign)
