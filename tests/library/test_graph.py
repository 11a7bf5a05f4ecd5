"""Which document a link means, and what is reached by links."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markdown_rag.library.graph import Graph, Names, Step, build_graph, neighbours, required, walk
from markdown_rag.markdown.edges import Edge
from markdown_rag.store.base import FileEntry


def entry(path: str, title: str = "", aliases: tuple[str, ...] = (), **properties: Any) -> FileEntry:
    return FileEntry("w", path, 1, 1, title, (), aliases, properties, "", "")


FILES = [
    entry("index.md", "Home"),
    entry("notes/plan.md", aliases=("Roadmap",)),
    entry("notes/deep/plan.md"),
    entry("archive/old/plan.md"),
    entry("notes/Größe.md"),
    entry("notes/v1.2.md"),
    entry("docs/guide/index.md", "The guide"),
    entry("docs/guide/set up.md"),
    entry("docs/other/README.md"),
    entry("blog/_index.md"),
    entry("notes/Case.md"),
    entry("notes/case.markdown"),
    entry("packs/base.md", id="base-1"),
]
NAMES = Names(FILES)


@pytest.mark.parametrize(
    ("target", "source", "wanted"),
    [
        ("plan", "index.md", "notes/plan.md"),  # the shortest path
        ("plan", "notes/deep/x.md", "notes/deep/plan.md"),  # its own folder first
        ("plan", "archive/old/y.md", "archive/old/plan.md"),
        ("PLAN", "index.md", "notes/plan.md"),
        ("plan.md", "index.md", "notes/plan.md"),
        ("deep/plan", "index.md", "notes/deep/plan.md"),
        ("old/plan", "index.md", "archive/old/plan.md"),
        ("/notes/deep/plan", "index.md", "notes/deep/plan.md"),
        ("../plan", "notes/deep/x.md", "notes/plan.md"),
        ("./plan", "notes/deep/x.md", "notes/deep/plan.md"),
        ("eep/plan", "index.md", ""),
        ("roadmap", "index.md", "notes/plan.md"),
        ("The guide", "index.md", "docs/guide/index.md"),
        ("base-1", "index.md", "packs/base.md"),
        (unicodedata.normalize("NFD", "größe"), "index.md", "notes/Größe.md"),
        ("v1.2", "index.md", "notes/v1.2.md"),
        ("guide", "docs/x.md", "docs/guide/index.md"),
        ("nowhere", "index.md", ""),
        ("../../outside", "notes/x.md", ""),
    ],
)
def test_a_wikilink_means_the_file_obsidian_would_open(target: str, source: str, wanted: str) -> None:
    assert NAMES.resolve(Edge("wikilink", target), source) == wanted


@pytest.mark.parametrize(
    ("target", "source", "wanted"),
    [
        ("plan.md", "notes/x.md", "notes/plan.md"),
        ("deep/plan.md", "notes/x.md", "notes/deep/plan.md"),
        ("../index.md", "notes/x.md", "index.md"),
        ("/docs/guide/", "notes/x.md", "docs/guide/index.md"),
        ("docs/guide", "notes/x.md", "docs/guide/index.md"),
        ("../docs/other", "notes/x.md", "docs/other/README.md"),
        ("../blog/", "notes/x.md", "blog/_index.md"),
        ("../docs/guide/set up", "notes/x.md", "docs/guide/set up.md"),
        ("case.markdown", "notes/x.md", "notes/case.markdown"),
        ("CASE.md", "notes/x.md", "notes/Case.md"),
        ("../../x.md", "notes/x.md", ""),
        ("missing.md", "notes/x.md", ""),
    ],
)
def test_a_markdown_link_is_a_path(target: str, source: str, wanted: str) -> None:
    assert NAMES.resolve(Edge("markdown", target), source) == wanted


def graph_of(**links: str) -> Graph:
    """A graph from `a="b c"`: a links to b and c."""
    entries = [entry(f"{name}.md") for name in {*links, *" ".join(links.values()).split()} if name != "x"]
    edges = [(f"{name}.md", Edge("wikilink", to)) for name, targets in links.items() for to in targets.split()]
    return build_graph(entries, edges)


def reached(steps: list[Step]) -> dict[str, int]:
    return {step.path.removesuffix(".md"): step.hops for step in steps}


def test_links_are_walked_forth_and_back_each_document_once() -> None:
    graph = graph_of(a="b c", b="d a", d="e", z="a")
    assert reached(walk(graph, ["a.md"], direction="out", hops=1)) == {"b": 1, "c": 1}
    assert reached(walk(graph, ["a.md"], direction="out", hops=3)) == {"b": 1, "c": 1, "d": 2, "e": 3}
    assert reached(walk(graph, ["a.md"], direction="in", hops=2)) == {"z": 1, "b": 1}
    assert reached(walk(graph, ["a.md"], direction="both", hops=1)) == {"b": 1, "c": 1, "z": 1}
    assert walk(graph, ["nothing.md"], direction="both", hops=3) == []


def shown(graph: Graph, direction: str, hops: int) -> list[tuple[str, str]]:
    return [
        (step.link.source[0], step.link.target[0]) for step in neighbours(graph, "a.md", direction=direction, hops=hops)
    ]


def test_both_ways_show_a_document_again_that_links_back() -> None:
    graph = graph_of(a="b", b="a c", c="a")
    steps = neighbours(graph, "a.md", direction="both", hops=2)
    assert [(step.path, step.hops, step.forward) for step in steps] == [
        ("b.md", 1, True),
        ("b.md", 1, False),
        ("c.md", 1, False),
        ("c.md", 2, True),
    ]


@settings(max_examples=60, deadline=None)
@given(
    links=st.dictionaries(st.sampled_from("abcde"), st.sets(st.sampled_from("abcde"), min_size=1).map(" ".join)),
    hops=st.integers(1, 3),
)
def test_both_ways_show_all_that_either_way_shows_each_link_once(links: dict[str, str], hops: int) -> None:
    graph = graph_of(**links)
    both = shown(graph, "both", hops)
    assert len(both) == len(set(both))
    assert set(both) >= {*shown(graph, "out", hops), *shown(graph, "in", hops)}
    walked = walk(graph, ["a.md"], direction="both", hops=hops)
    assert {step.path for step in neighbours(graph, "a.md", direction="both", hops=hops)} == {s.path for s in walked}


def test_broken_links_and_links_to_oneself_lead_nowhere() -> None:
    graph = graph_of(a="a x b")
    assert [(link.source, link.edge.target) for link in graph.broken()] == [("a.md", "x")]
    assert reached(walk(graph, ["a.md"], direction="both", hops=3)) == {"b": 1}


def test_what_is_required_follows_requires_alone() -> None:
    entries = [entry(f"{name}.md") for name in "abcd"]
    edges = [
        ("a.md", Edge("requires", "b")),
        ("a.md", Edge("wikilink", "d")),
        ("b.md", Edge("requires", "c.md")),
        ("c.md", Edge("requires", "a")),
    ]
    assert reached(required(build_graph(entries, edges), ["a.md"], 2)) == {"b": 1, "c": 2}


def test_an_edge_list_connects_files_of_its_own_folder() -> None:
    entries = [entry("pack/concepts/one.md"), entry("pack/two.md", id="two-id"), entry("two.md")]
    edges = [
        ("pack/_graph.yaml", Edge("requires", "two.md", source="concepts/one.md")),
        ("pack/_graph.yaml", Edge("related", "an-idea", source="concepts/one.md")),
        ("pack/_graph.yaml", Edge("related", "two.md", source="an-idea")),
    ]
    graph = build_graph(entries, edges)
    (step,) = required(graph, ["pack/concepts/one.md"], 2)
    assert step.path == "pack/two.md"
    assert graph.broken() == []
