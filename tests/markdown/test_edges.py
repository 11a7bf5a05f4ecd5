"""Which of a document's links are kept with its record, and what an edge list gives."""

from __future__ import annotations

import json

import pytest

from markdown_rag.markdown.chunking import ChunkPolicy, Document
from markdown_rag.markdown.decoding import Undecodable
from markdown_rag.markdown.documents import to_document
from markdown_rag.markdown.edges import MAX_PACKED, Edge, pack, unpack

POLICY = ChunkPolicy()


def edges(text: str, path: str = "notes/a.md") -> tuple[Edge, ...]:
    document = to_document(text.encode(), path, POLICY)
    assert isinstance(document, Document)
    return document.edges


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("See [[plan]].", Edge("wikilink", "plan", "", 1)),
        ("See [[plan#Step 2|two]].", Edge("wikilink", "plan", "Step 2", 1)),
        ("See [[plan#^b-1]].", Edge("wikilink", "plan", "^b-1", 1)),
        ("\n![[plan]]", Edge("embed", "plan", "", 2)),
        ("See [x](../b%20c.md#top).", Edge("markdown", "../b c.md", "top", 1)),
        ("See [x](guide/).", Edge("markdown", "guide/", "", 1)),
        ("See [[v1.2 notes]] and [[v2.0]].", Edge("wikilink", "v2.0", "", 1)),
        ("---\nrequires: [base.md, 'deep/other#Part']\n---\nText.", Edge("requires", "deep/other", "Part", 0)),
        ("---\nrequires: base\n---\nText.", Edge("requires", "base", "", 0)),
        ("---\nrelated: ['[[plan|p]]']\n---\nText.", Edge("related", "plan", "", 0)),
        ("---\nup: '[[index]]'\n---\nText.", Edge("wikilink", "index", "", 0)),
    ],
)
def test_a_link_to_a_document_is_kept_as_written(text: str, wanted: Edge) -> None:
    assert wanted in edges(text)


@pytest.mark.parametrize(
    "text",
    [
        "![[plan.png|300]] and ![a](b.svg) and [c](data.csv)",
        "[site](https://example.com/a.md) <https://example.com>",
        "[[#Here]] [here](#there)",
        "`[[code]]` and plain [brackets]",
        "---\nstatus: done\nsee: plain text\nrequires: https://example.com/x.md\n---\nText.",
        "---\nrequires: [1, null, {a: b}, '']\n---\nText.",
    ],
)
def test_pictures_the_web_and_places_in_the_same_document_are_no_links(text: str) -> None:
    assert edges(text) == ()


def test_the_same_link_twice_is_one() -> None:
    assert edges("[[a]]\n\n[[a]] [[a#b]]") == (Edge("wikilink", "a", "", 1), Edge("wikilink", "a", "b", 3))


def test_packed_links_come_back_and_no_text_is_over_the_stores_limit() -> None:
    given = tuple(Edge("wikilink", f"日本語 {number}", "x" * (number % 50), number) for number in range(5_000))
    texts = pack((*given, Edge("related", "b.md", source="a.md")))
    assert len(texts) > 1
    assert all(len(text.encode()) <= MAX_PACKED for text in texts)
    assert tuple(edge for text in texts for edge in unpack(text)) == (*given, Edge("related", "b.md", source="a.md"))
    assert pack(()) == []


@pytest.mark.parametrize("stored", ["", "{", "3", '{"a": 1}', "[1]", '["kind"]', "[[1, 2]]"])
def test_a_text_that_holds_no_links_reads_as_none(stored: str) -> None:
    assert unpack(stored) == ()


GRAPH = """
meta: {pack: Demo}
nodes:
- {id: base, title: Base, file: concepts/base.md}
- {id: term, title: A term without a file}
edges:
- {source: base, target: concepts/other.md, kind: requires}
- {source: term, target: base}
- {source: base}
"""


def test_an_edge_list_gives_the_edges_between_the_files_of_its_nodes() -> None:
    assert edges(GRAPH, "pack/_graph.yaml") == (
        Edge("requires", "concepts/other.md", source="concepts/base.md"),
        Edge("related", "concepts/base.md", source="term"),
    )
    assert edges(json.dumps({"edges": [{"source": "a", "target": "b"}]}), "_graph.yaml") == (
        Edge("related", "b", source="a"),
    )


def test_every_byte_of_an_edge_list_is_in_a_chunk_or_named() -> None:
    many = [{"source": f"folder/note-{i}.md", "target": f"folder/note-{i + 1}.md"} for i in range(3_000)]
    data = json.dumps({"edges": many}).encode()
    document = to_document(data, "_graph.yaml", POLICY)
    assert isinstance(document, Document)
    assert len(document.chunks) == len(pack(document.edges)) > 1
    spans = [(chunk.start_byte, chunk.end_byte) for chunk in document.chunks]
    spans += [(gap.start_byte, gap.end_byte) for gap in document.excluded]
    assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == len(data)


@pytest.mark.parametrize(
    "text", ["", "- a\n- b\n", "edges: [", "nodes: []\nedges: []\n", "edges:\n- 3\n", "\0\1\2\3" * 99]
)
def test_what_is_no_edge_list_is_named_with_the_reason(text: str) -> None:
    assert isinstance(to_document(text.encode(), "_graph.yaml", POLICY), Undecodable)
