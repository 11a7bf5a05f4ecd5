"""What a hit shows of its file: the text of its lines, with a mark where a line was cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from markdown_rag.app import App
from markdown_rag.facade import SearchCall

from .conftest import indexed

SENTENCES = " ".join(f"Heron number {n} stands in the water and waits for fish." for n in range(400))
SHORT = "\n".join(f"Heron {n} waits." for n in range(400))
QUOTED = "\n>\n".join(f"> Heron {n} says that it waits for the fish in the water of the lake." for n in range(200))
LIST = "\n".join(f"- Heron {n}\n  - waits for the fish in the water of the lake." for n in range(200))


BODIES = {"sentences": SENTENCES, "short": SHORT, "quoted": QUOTED, "list": LIST}


@pytest.mark.parametrize("written", ["utf-8 \n", "utf-8 \r\n", "utf-16 \n", "utf-8 \r"], ids=ascii)
@pytest.mark.parametrize("body", BODIES)
def test_a_mark_stands_where_a_part_of_a_line_was_left_out_and_nowhere_else(
    agent: Callable[..., App], vault: Path, body: str, written: str
) -> None:
    encoding, end = written.split(" ")
    text = f"# Herons\n\n{BODIES[body]}\n\nThe end.\n"
    (vault / "herons.md").write_bytes(text.replace("\n", end).encode(encoding))
    app = agent()
    indexed(app)
    hits = app.search(SearchCall("heron waits fish", k=50, every_passage=True))["hits"]
    assert len(hits) > 5
    assert (body == "sentences") is any("…" in hit["text"] for hit in hits)
    for hit in hits:
        first, last = map(int, hit["lines"].split("-"))
        whole = "\n".join(text.split("\n")[first - 1 : last])
        shown = hit["text"].removeprefix("…").removesuffix("…").strip()
        assert shown in whole
        assert hit["text"].startswith("…") is not whole.lstrip(" ").startswith(shown)
        assert hit["text"].endswith("…") is not whole.rstrip().endswith(shown)
