"""A fuzz target over what reads other people's bytes: front matter, outline, chunks, and filters made of names.

    python -m tests.trust.fuzzing [--seconds 60] [--seed 1] [DIRECTORY ...]

``examine`` takes any bytes and raises AssertionError, or whatever was not foreseen, where a law is broken, so any
fuzzer can drive it. The one here needs nothing but the standard library: it starts from notes (and from the files of
directories that are named), cuts, doubles, moves and mixes their bytes with what means something to markdown, front
matter or filters, and keeps the input that breaks a law.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from milvus_lite.schema.types import CollectionSchema, DataType, FieldSchema
from milvus_lite.search.filter import compile_filter, evaluate_mask

from markdown_rag.markdown.chunking import ChunkPolicy
from markdown_rag.markdown.decoding import Undecodable, decode
from markdown_rag.markdown.frontmatter import split_front_matter
from markdown_rag.markdown.outline import Block, parse_outline
from markdown_rag.store.base import Where
from markdown_rag.store.filters import accepts, parent_folder, to_expression
from tests.markdown.conftest import judged_document

NOTES = Path(__file__).parents[1] / "data" / "markdown"
MOST_BYTES = 4_000
WORDS = (
    b"---\n", b"+++\n", b"...\n", b'{"a":', b"a: &x\n", b"*x", b"tags: [", b"| - | - |\n", b"| a | b |\n", b"```",
    b"~~~~\n", b"<!--", b"-->", b"<div>\n", b"> ", b"- ", b"1. ", b"    ", b"\t", b"# ", b"\n===\n", b"[[a|b#c]]",
    b"![[", b"$$\n", b"\r", b"\r\n", b"\0", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80",
    b"\xe2\x80\x8b", b"\xcc\x81", b"data:image/png;base64,", b"x" * 300, b'"', b"'", b"\\",
    b'" or ord >= 0 or path == "', b"%", b"_", b"/", b"..", b"\n\n",
)  # fmt: skip
_SCHEMA = CollectionSchema(
    fields=[
        FieldSchema("id", DataType.VARCHAR, is_primary=True, max_length=64),
        FieldSchema("workspace", DataType.VARCHAR, max_length=512),
        FieldSchema("path", DataType.VARCHAR, max_length=8192),
        FieldSchema("folder", DataType.VARCHAR, max_length=8192),
        FieldSchema("ord", DataType.INT32),
        FieldSchema("vector", DataType.FLOAT_VECTOR, dim=2),
    ]
)


def examine(data: bytes) -> None:
    """Hold the bytes against every law, as a file and as a name."""
    examine_file(data)
    examine_name(data.decode("utf-8", "replace"))


def examine_file(data: bytes) -> None:
    """Front matter is JSON before a body, blocks nest, chunks are exact and leave no byte out."""
    decoded = decode(data)
    if isinstance(decoded, Undecodable):
        assert decoded.reason
        return
    front = split_front_matter(decoded.text)
    assert 0 <= front.end <= len(decoded.text)
    assert front.end == 0 or decoded.text[front.end - 1] == "\n" or front.end == len(decoded.text) or front.properties
    json.dumps(front.properties, allow_nan=False).encode()
    _nested(parse_outline(decoded.text, front.end).blocks, front.end, len(decoded.text))
    size = 32 + len(data) % 400
    judged_document(data, policy=ChunkPolicy(max_tokens=size, min_tokens=size // 4, overlap=len(data) % 3 * 10))


def _nested(blocks: Sequence[Block], low: int, high: int) -> None:
    for block in blocks:
        assert low <= block.start <= block.end <= high
        _nested(block.children, block.start, block.end)
        low = block.end


def examine_name(text: str) -> None:
    """A filter means exactly the rows it names, whatever the name."""
    half = len(text) // 2
    names = [name for name in dict.fromkeys([text[:200], text[:half][:200], text[half:][:200]]) if name]
    rows = [(workspace, row) for workspace in [*names[:2], "w"] for name in [*names, "a"] for row in _near(name)]
    table = pa.table(
        {
            "workspace": [workspace for workspace, _ in rows],
            "path": [path for _, path in rows],
            "folder": [parent_folder(path) for _, path in rows],
            "ord": pa.array([0] * len(rows), pa.int32()),
        }
    )
    for name in names:
        for where in (
            Where((name,), scope=name),
            Where(scope=name, recursive=False),
            Where((name, "w"), paths=(name, *names), exclude_paths=(name + "x",)),
            Where(within=(name, "a"), outside=(name + "/b",)),
            Where(files=((name, (name, "a")), ("w", ()))),
        ):
            mask = evaluate_mask(compile_filter(to_expression(where), _SCHEMA), table)
            assert mask.tolist() == [accepts(where, workspace, path) for workspace, path in rows], where


def _near(name: str) -> tuple[str, ...]:
    """A path and those that a careless filter takes for it."""
    return name, name + "/b", name + "0", name + "x", name[:-1] + "%", f"{name}/b/{name}", "a/" + name


def mutated(chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with a few changes."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, 8)):
        start = chance.randint(0, len(data))
        end = min(len(data), start + chance.randint(0, 40))
        match chance.randrange(6):
            case 0:
                del data[start:end]
            case 1:
                data[start:start] = data[start:end] * chance.randint(1, 30)
            case 2:
                data[start:start] = chance.choice(WORDS) * chance.choice((1, 1, 1, 2, 40))
            case 3:
                other = chance.choice(seeds)
                data[start:end] = other[: chance.randint(0, len(other))]
            case 4:
                data[start:end] = chance.randbytes(end - start)
            case _:
                moved = data[start:end]
                del data[start:end]
                place = chance.randint(0, len(data))
                data[place:place] = moved
    return bytes(data[:MOST_BYTES])


def seeds_of(folders: Sequence[Path] = ()) -> list[bytes]:
    """Small files to start from, in a fixed order."""
    files = sorted(path for folder in (NOTES, *folders) for path in folder.rglob("*") if path.is_file())
    return [b"# a\n\nb\n", *(data[:MOST_BYTES] for data in map(Path.read_bytes, files) if data)]


def inputs(seed: int, folders: Sequence[Path] = ()) -> Iterator[bytes]:
    """Endless inputs, the same for a seed."""
    chance, seeds = random.Random(seed), seeds_of(folders)
    while True:
        yield mutated(chance, seeds)


def main() -> int:
    """Fuzz for some time; 1 with the input kept in a file where a law was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("folders", nargs="*", type=Path)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    for number, data in enumerate(inputs(options.seed, options.folders)):
        if time.monotonic() > end:
            print(f"{number} inputs, no law broken")
            return 0
        try:
            examine(data)
        except Exception:
            kept = Path(f"broken-{options.seed}-{number}.bin")
            kept.write_bytes(data)
            print(f"input {number} of seed {options.seed} breaks a law; it is in {kept}", file=sys.stderr)
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
