"""Builds a large corpus by recombining sections of existing Markdown, the same bytes for the same arguments.

    python tests/bench/make_corpus.py DIR --docs SOURCE [--docs SOURCE ...] [--files 1300] [--seed 1]

SOURCE is a folder of Markdown with headings. Writes DIR/docs (index this) and DIR/queries.jsonl (known items),
and prints counts. Sections come whole and are re-levelled under the new file's title. Files differ in size, lie up to
four folders deep, one in three has front matter, one in four links to others, one in fifty nearly repeats an earlier
one. One in twenty (at least fifty) holds a sentence with a made-up name, asked for by its words and by a description.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from pathlib import Path

FOLDERS = ["guides", "reference", "runbooks", "notes", "design", "meetings", "research", "projects", "teams", "archive"]
TOPICS = ["storage", "network", "search", "billing", "release", "mobile", "editor", "security", "metrics", "hiring"]
SYLLABLES = ["ba", "ko", "ri", "ten", "lu", "mar", "vo", "shi", "del", "qua", "zor", "pim", "fen", "gal", "hux"]
THINGS = (
    "valve", "ledger", "antenna", "reactor", "curtain", "compass", "harvester", "turntable", "lighthouse", "conveyor",
)  # fmt: skip
FACTS = (
    ("is calibrated every {n} days by the night crew", "how often is the {t} named {w} calibrated or serviced"),
    ("fails below {n} degrees and must be warmed first", "what conditions break the {t} {w}"),
    ("was bought for {n} crowns from a closed brewery", "where does the {t} {w} come from and what did it cost"),
    ("needs {n} turns of the blue handle to open", "how do I open the {t} {w}"),
    ("is painted with {n} coats against salt water", "how is the {t} {w} protected from the sea"),
)
Section = tuple[str, str]  # heading, body


def sections(sources: list[Path]) -> list[Section]:
    """The sections of 80 to 6,000 characters of all documents; headings count outside fences only."""
    found: list[Section] = []
    for source in sources:
        for path in sorted(source.rglob("*.md")):
            text = path.read_text(encoding="utf-8", errors="replace")
            found += sections_of(path.stem, re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL))
    return found


def sections_of(title: str, text: str) -> list[Section]:
    """The sections of one document; what stands before its first heading is called by the title."""
    found: list[Section] = []
    heading, lines, fence = title, list[str](), ""
    for line in [*text.splitlines(), "# end"]:
        mark = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if mark and (not fence or (line.strip().startswith(fence) and not line.strip().strip(fence[0]))):
            fence = "" if fence else mark[1]
        start = None if fence else re.match(r"#{1,6} (.+)", line)
        if not start:
            lines.append(line)
            continue
        body = "\n".join(lines).strip()
        if 80 <= len(body) <= 6000:
            found.append((heading.strip("# ").strip(), body))
        heading, lines = start[1], []
    return found


def compose(dice: random.Random, number: int, pool: list[Section], earlier: list[str], mean: float) -> str:
    """One file of random sections; headings nest two or three deep."""
    title = f"{dice.choice(pool)[0][:60]} {number}"
    parts = []
    if dice.random() < 1 / 3:
        plain = title.replace('"', "").replace("\\", "")
        tags = f"{dice.choice(TOPICS)}, {dice.choice(TOPICS)}"
        date = f"20{dice.randint(15, 26)}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"
        parts.append(f'---\ntitle: "{plain}"\ntags: [{tags}]\ndate: {date}\n---\n')
    parts.append(f"# {title}\n")
    for place in range(min(60, 1 + int(dice.expovariate(1 / mean)))):
        heading, body = dice.choice(pool)
        level = "##" if place == 0 or dice.random() < 0.6 else "###"
        parts.append(f"{level} {heading}\n\n{body}\n")
    return "\n".join([*parts, *extras(dice, earlier)])


def extras(dice: random.Random, earlier: list[str]) -> list[str]:
    """Now and then a table, some code, links."""
    parts = []
    if dice.random() < 0.1:
        rows = "".join(
            f"| {dice.choice(TOPICS)} | {dice.randint(1, 9999)} | {dice.choice(THINGS)} |\n"
            for _ in range(dice.randint(3, 40))
        )
        parts.append(f"## Figures\n\n| area | count | device |\n|---|---|---|\n{rows}")
    if dice.random() < 0.1:
        first = f"# settings of {dice.choice(TOPICS)}\nlimit = {dice.randint(1, 999)}"
        parts.append(f"```python\n{first}\nretry_after_{dice.choice(TOPICS)} = {dice.randint(1, 99)}\n```\n")
    if earlier and dice.random() < 0.25:
        links = [
            f"[{Path(path).stem}](/{path})" if dice.random() < 0.5 else f"[[{Path(path).stem}]]"
            for path in dice.choices(earlier, k=dice.randint(1, 6))
        ]
        parts.append(f"## See also\n\n{' '.join(links)}\n")
    return parts


def sentinel(dice: random.Random, used: set[str]) -> tuple[str, str, str]:
    """A sentence round a made-up name, the question in its words, the question by description."""
    kind, thing, name = dice.randrange(len(FACTS)), dice.choice(THINGS), ""
    while not name or name in used:
        name = "".join(dice.choice(SYLLABLES) for _ in range(4))
    used.add(name)
    fact, ask = FACTS[kind]
    fact = fact.format(n=dice.randint(3, 97))
    return f"The {thing} {name} {fact}.", f"{thing} {name} {fact}", ask.format(t=thing, w=name)


def insert(dice: random.Random, text: str, sentence: str) -> str:
    """The text with the sentence as a block of its own, where it breaks nothing."""
    blocks = text.split("\n\n")
    anywhere = not text.startswith("---") and "```" not in text and "~~~" not in text
    blocks.insert(dice.randint(1, len(blocks)) if anywhere else len(blocks), sentence)
    return "\n\n".join(blocks)


def build(root: Path, pool: list[Section], files: int, seed: int, mean: float) -> Counter[str]:
    """Write the corpus; what was written."""
    dice, used, earlier = random.Random(seed), set[str](), list[str]()
    texts: dict[str, str] = {}
    counts = Counter(files=files)
    every = max(1, min(20, files // 50))
    with (root / "queries.jsonl").open("w", encoding="utf-8") as queries:
        for number in range(files):
            depth = dice.randint(0, 3)
            inner = [f"{dice.choice(TOPICS)}-{dice.randint(1, 20)}" for _ in range(depth)]
            folder = "/".join([FOLDERS[number % len(FOLDERS)], *inner])
            if len(earlier) > 50 and dice.random() < 0.02:
                text = texts[dice.choice(earlier[-200:])].replace(".", ". Revised.", 1)
                counts["near_copies"] += 1
            else:
                text = compose(dice, number, pool, earlier, mean)
            path = f"{folder}/{dice.choice(TOPICS)}-{number:05}.md"
            if number % every == 0:
                sentence, exact, described = sentinel(dice, used)
                text = insert(dice, text, sentence)
                for kind, question in (("exact", exact), ("described", described)):
                    item = {"id": f"corpus:{kind}:{number}", "query": question, "gold_files": [path], "kind": kind}
                    queries.write(json.dumps(item | {"lang": "en", "sentence": sentence}, ensure_ascii=False) + "\n")
                    counts["queries"] += 1
            else:
                texts[path] = text
                if len(earlier) > 300:
                    texts.pop(earlier[-300], None)
                earlier.append(path)
            target = root / "docs" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())
            counts["bytes"] += len(text.encode())
            counts["headings"] += len(re.findall(r"(?m)^#{1,6} ", text))
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--docs", type=Path, action="append", required=True)
    parser.add_argument("--files", type=int, default=1300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mean-sections", type=float, default=5)
    options = parser.parse_args()
    pool = sections(options.docs)
    if not pool:
        sys.exit("no sections in these folders")
    if (options.dir / "docs").exists():
        sys.exit(f"{options.dir}/docs exists already")
    options.dir.mkdir(parents=True, exist_ok=True)
    print(json.dumps(build(options.dir, pool, options.files, options.seed, options.mean_sections)))


if __name__ == "__main__":
    main()
