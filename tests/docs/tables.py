"""The tables of the documentation that are made from the code.

A page holds ``<!-- table: NAME [ARGUMENTS] -->`` … ``<!-- end -->``; what stands between is written here and nowhere
else. ``python tests/docs/tables.py --write`` writes them, tests/docs/test_docs.py compares them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from markdown_rag import cli
from markdown_rag.embeddings import prices, registry
from markdown_rag.errors import SettingsError
from markdown_rag.server.tools import create_server
from markdown_rag.settings import Variable, describe
from markdown_rag.store import schema
from markdown_rag.store.base import Model

ROOT = Path(__file__).resolve().parents[2]
# What the fields of a row mean; their names, types and lengths come from the schema.
FIELD_MEANINGS = {
    "id": "hash of workspace and path, generation and position, each in hexadecimal of fixed width",
    "workspace": "the workspace's id",
    "path": "relative to the workspace, with `/`, as on disk",
    "folder": "the path without its last part",
    "filename": "the path's last part",
    "ord": "position in the file, from 0",
    "chunk_count": "rows of this generation",
    "gen": "generation; larger is newer",
    "title": "the document's title",
    "heading_path": "headings above the text, joined by ` › `",
    "text": "exactly the span of the file, decoded, with newlines as LF",
    "prefix": "an opening fence or table header that is repeated for reading and embedding",
    "lexical": "the analyzer's tokens, joined by blanks",
    "tags": "from front matter and inline",
    "aliases": "from front matter",
    "properties": "other front matter",
    "start_line": "first line in the file, from 1",
    "end_line": "last line, inclusive",
    "start_byte": "offset of the span in the file",
    "end_byte": "offset of its end, exclusive",
    "file_hash": "sha256 of the file's bytes",
    "text_hash": "sha256 of the embedded text",
    "policy": "fingerprint of the chunking policy",
    "links": "the file's links as a JSON array, on the row with `ord` 0 and on further ones where they do not fit; "
    "else empty",
    "vector": "(1 − w) × chunk + w × document, both of length 1, w the collection's `document_weight`; not normalised",
}
BLOCK = re.compile(r"(<!-- table: (?P<call>[^\n]+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """Every page of the documentation."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def render(text: str) -> str:
    """A page with its tables as the code has them now."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{_table(found['call'])}\n\n{found[3]}", text)


def _table(call: str) -> str:
    name, *arguments = call.split()
    return TABLES[name](*arguments)


def _rows(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _default(variable: Variable) -> str:
    if not variable.default:
        return "–"
    return variable.default if " " in variable.default else f"`{variable.default}`"


def variables() -> str:
    """Every variable with its default, that of version 1 where it was another, and its meaning."""
    rows = (
        (f"`{v.name}`", _default(v) + (f" (was {v.formerly})" if v.formerly else ""), v.meaning) for v in describe()
    )
    return _rows(("variable", "default", "meaning"), rows)


def allowed(first: str, last: str) -> str:
    """The variables from first to last with all that is known of them."""
    names = [v.name for v in describe()]
    chosen = describe()[names.index(first) : names.index(last) + 1]
    rows = ((f"`{v.name}`", v.meaning, _default(v), v.range) for v in chosen)
    return _rows(("variable", "meaning", "default", "allowed"), rows)


def changed() -> str:
    """The variables whose default is another one than in version 1."""
    rows = ((f"`{v.name}`", v.formerly, v.default) for v in describe() if v.formerly)
    return _rows(("variable", "version 1", "now"), rows)


def providers() -> str:
    """The embedding providers: model and key."""
    rows = (
        (f"`{row.name}`", f"`{row.model}`", f"`{row.variable}`" if row.variable else "–")
        for row in map(registry.provider, registry.PROVIDERS)
    )
    return _rows(("provider", "model by default", "key"), rows)


def price_list() -> str:
    """What a million tokens cost, where it is known."""
    rows = (
        (f"`{price.provider}`", f"`{price.model}`", f"{price.usd:.2f}", f"<{price.source}>") for price in prices.PRICES
    )
    return _rows(("provider", "model", "US dollars", "source"), rows)


def tools() -> list[Any]:
    """The tools as a client sees them."""
    server = create_server(cli.Unusable(SettingsError("for the documentation")))
    return asyncio.run(server.list_tools())


def parameters(tool_name: str) -> str:
    """A tool's parameters."""
    (tool,) = (tool for tool in tools() if tool.name == tool_name)
    required = tool.input_schema.get("required", [])
    rows = (
        (
            f"`{name}`",
            schema["type"],
            "required" if name in required else _json(schema["default"]),
            schema["description"],
        )
        for name, schema in tool.input_schema["properties"].items()
    )
    return _rows(("parameter", "type", "default", "meaning"), rows)


def answer(tool_name: str) -> str:
    """The fields of a tool's structured answer."""
    (tool,) = (tool for tool in tools() if tool.name == tool_name)
    rows = ((f"`{name}`", schema["description"]) for name, schema in tool.output_schema["properties"].items())
    return _rows(("field", "meaning"), rows)


def hit() -> str:
    """The fields of one hit."""
    (tool,) = (tool for tool in tools() if tool.name == "search_documents")
    properties = tool.output_schema["properties"]["hits"]["items"]["properties"]
    return _rows(("field", "meaning"), ((f"`{name}`", schema["description"]) for name, schema in properties.items()))


def fields() -> str:
    """The fields of a row."""
    rows = ((f"`{field.name}`", _kind(field), FIELD_MEANINGS[field.name]) for field in schema.FIELDS)
    return _rows(("field", "type", "meaning"), rows)


def _kind(field: schema.Field) -> str:
    kind = f"{field.kind} of VARCHAR" if field.kind == "ARRAY" else field.kind
    return f"{kind}({field.size})" if "VARCHAR" in kind else kind


def properties() -> str:
    """The properties of a collection, with those of the default model as examples."""
    example = Model("local", registry.provider("local").model, 512)
    rows = ((f"`{name}`", f"`{value}`") for name, value in schema.properties(example).items())
    return _rows(("property", "for example"), rows)


def _json(value: object) -> str:
    return f"`{json.dumps(value)}`"


def commands() -> dict[str, argparse.ArgumentParser]:
    """The shell commands and what each takes."""
    (action,) = (a for a in cli._parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


def command_list() -> str:
    """The shell commands, one line each."""
    rows = ((f"`{name}`", parser.description or "") for name, parser in commands().items())
    return _rows(("command", "does"), rows)


def command(name: str) -> str:
    """What one shell command takes."""
    given = [a for a in commands()[name]._actions if not isinstance(a, argparse._HelpAction)]
    rows = ((f"`{', '.join(a.option_strings) or (a.metavar or a.dest).upper()}`", a.help or "") for a in given)
    return _rows(("argument", "meaning"), rows)


TABLES: dict[str, Callable[..., str]] = {
    "variables": variables,
    "allowed": allowed,
    "changed": changed,
    "fields": fields,
    "properties": properties,
    "providers": providers,
    "prices": price_list,
    "parameters": parameters,
    "answer": answer,
    "hit": hit,
    "commands": command_list,
    "command": command,
}


def main() -> int:
    """Write the tables (--write), or name the pages that are behind the code."""
    behind = [page for page in pages() if (text := page.read_text(encoding="utf-8")) != render(text)]
    for page in behind:
        print(page.relative_to(ROOT))
        if "--write" in sys.argv:
            page.write_text(render(page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0 if "--write" in sys.argv else len(behind)


if __name__ == "__main__":
    sys.exit(main())
