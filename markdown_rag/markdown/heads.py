"""A heading path becomes the line that stands over an embedded text: "title > heading > heading"."""

from __future__ import annotations

from markdown_rag.markdown.frontmatter import shorten
from markdown_rag.markdown.sections import MAX_HEADING
from markdown_rag.markdown.splitting import cut
from markdown_rag.markdown.tokens import count

HEAD_JOIN = " > "


class Heads:
    """The heads of one document, each counted once. title "" stays out: a name that is only the file's is not embedded.

    limit: tokens a head may have; a longer one loses its middle first, then its end.
    """

    def __init__(self, title: str, limit: int) -> None:
        self.title = title
        self.limit = max(1, limit)
        self._known: dict[tuple[str, ...], tuple[str, int]] = {}

    def of(self, path: tuple[str, ...]) -> tuple[str, int]:
        """The head without its line end ("" where there is none), and its tokens with it."""
        if path not in self._known:
            self._known[path] = self._made(path)
        return self._known[path]

    def _made(self, path: tuple[str, ...]) -> tuple[str, int]:
        names = list(path)
        if self.title and (not names or names[0] != shorten(self.title, MAX_HEADING)):
            names.insert(0, self.title)
        if not names:
            return "", 0
        head, cost = self._counted(names)
        while cost > self.limit and len(names) > 2:
            del names[1]
            head, cost = self._counted(names)
        if cost > self.limit:
            first, last, _ = cut(head, 0, len(head), self.limit - 1)[0]
            head, cost = self._counted([head[first:last].rstrip()])
        return head, cost

    @staticmethod
    def _counted(names: list[str]) -> tuple[str, int]:
        head = HEAD_JOIN.join(names)
        return head, count(head + "\n")
