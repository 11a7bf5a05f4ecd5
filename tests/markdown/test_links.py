"""Links are found as the author wrote them, with their lines."""

from markdown_rag.markdown.links import Link, extract_links
from markdown_rag.markdown.outline import parse_outline

TEXT = """---
x: 1
---
See [[slash#CI/CD|the pipeline]] and [[plain]], ![[plan.png|300]].
A [guide](../docs/the%20guide.md#set-up "title"), [here](#below), ![pic](img/a.png).
Web [site](https://example.com/x.md), <https://example.com>, [mail](mailto:a@b.c).
`[[code]]` and

```
[[fence]] [x](y.md)
```

[[note#^block-1]] [ref][r] <!-- [[comment]] -->

[r]: target.md
"""


def test_every_kind_of_link_to_a_document_is_found() -> None:
    links = extract_links(TEXT, parse_outline(TEXT, TEXT.index("See")))
    assert links == (
        Link("wikilink", "slash", "CI/CD", "", "the pipeline", 4),
        Link("wikilink", "plain", "", "", "", 4),
        Link("embed", "plan.png", "", "", "300", 4),
        Link("markdown", "../docs/the guide.md", "set-up", "", "guide", 5),
        Link("markdown", "", "below", "", "here", 5),
        Link("embed", "img/a.png", "", "", "pic", 5),
        Link("wikilink", "note", "", "block-1", "", 13),
        Link("markdown", "target.md", "", "", "ref", 13),
    )


def test_a_link_in_a_table_is_the_same_as_elsewhere() -> None:
    text = "| a |\n| --- |\n| [[Note\\|shown]], [[Note#Part\\|shown]], ![[plan.png\\|300]] |\n"
    assert extract_links(text, parse_outline(text)) == (
        Link("wikilink", "Note", "", "", "shown", 3),
        Link("wikilink", "Note", "Part", "", "shown", 3),
        Link("embed", "plan.png", "", "", "300", 3),
    )


def test_a_text_without_links_has_none() -> None:
    assert extract_links("plain [not a link] text\n", parse_outline("")) == ()


def test_links_in_a_comment_of_obsidian_are_none() -> None:
    text = "%%[[a]]%% [[b]]\n\n%%\n[[c]]\n\n[[d]]\n%%\n\n`%%` [[e]] `%%`\n\nabout 50%% of [[f]]\n\n%% left open [[g]]\n"
    assert [link.target for link in extract_links(text, parse_outline(text))] == ["b", "e", "f", "g"]
