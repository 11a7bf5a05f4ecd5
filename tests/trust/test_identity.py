"""Whose rows are whose: one folder however it is spelled, machines that share a store, machines that share an id."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

from markdown_rag.indexing.delta import GUARD_FILES
from markdown_rag.store.base import EVERYTHING, Where
from tests.indexing.parts import Bench
from tests.waiting import at_once

from .conftest import Machine
from .judge import holds_the_disk, is_settled

LONG = "# Top\n\n" + "".join(f"## Part {i}\n\npart {i} of {{0}} " + "and so on " * 100 + "\n\n" for i in range(5))


def test_a_machine_that_shares_the_id_embeds_nothing_that_the_first_has(machine: Machine) -> None:
    first, second = (machine(name, shared_id="team") for name in ("one", "two"))
    for bench in (first, second):
        bench.write("a.md", LONG.format("amber"))
        bench.write("sub/b.md", LONG.format("birch"))
    first.run()
    assert second.run().unchanged == 2
    second.write("a.md", LONG.format("amber").replace("part 3", "another part"))
    second.write("moved.md", LONG.format("birch"))
    assert second.run().embedded == 1
    assert len(second.embedder.sent) == 1
    is_settled(second)
    paid = len(first.embedder.sent)
    for name in ("a.md", "moved.md"):  # the documents reach the first machine, as they do where an id is shared
        first.write(name, (second.root / name).read_text())
    is_settled(first)
    assert len(first.embedder.sent) == paid


def test_a_machine_with_documents_of_its_own_pays_only_for_what_no_other_has(machine: Machine) -> None:
    first, second = machine("one"), machine("two")
    for bench in (first, second):
        bench.write("a.md", LONG.format("amber"))
    second.note("own.md")
    first.run()
    assert second.run().embedded == 1
    is_settled(first)
    is_settled(second)


def test_a_machine_never_judges_the_rows_of_another(machine: Machine) -> None:
    first, second = machine("one"), machine("two")
    for number in range(GUARD_FILES + 5):
        first.note(f"{number}.md")
    second.write("keep.txt", "so that the root is never empty")
    second.note("a.md")
    first.run()
    before = first.rows()
    second.run()
    second.run(verify=True)
    (second.root / "a.md").unlink()
    second.run()
    second.indexer.clear(second.workspace.id)
    assert first.rows() == before
    is_settled(first)


def act(bench: Bench, chance: random.Random) -> None:
    """One thing that a person or an agent does."""
    path = chance.choice(["a.md", "b.md", "sub/c.md", "it's.md"])
    match chance.randrange(6):
        case 0 | 1:
            bench.write(path, LONG.format(chance.choice(["amber", "birch", bench.host])))
        case 2:
            bench.note(path, chance.choice(["short", bench.host]))
        case 3:
            (bench.root / path).unlink(missing_ok=True)
        case 4:
            bench.indexer.clear(bench.workspace.id)
        case 5:
            bench.restart(keep_state=chance.random() < 0.5)
    bench.run()


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_machines_that_index_edit_delete_and_clear_at_once_neither_lose_nor_double_a_row_of_the_other(
    machine: Machine, seed: int
) -> None:
    benches = [machine(name) for name in ("one", "two")]

    def live(bench: Bench) -> None:
        bench.write("keep.txt", "so that the root is never empty")
        chance = random.Random(f"{seed} {bench.host}")
        for _ in range(6):
            act(bench, chance)
            holds_the_disk(bench)

    assert not any(at_once(*(partial(live, bench) for bench in benches), seconds=300))
    for bench in benches:
        is_settled(bench)
    rows = [bench.store.count(Where(workspaces=(bench.workspace.id,))) for bench in benches]
    assert benches[0].store.count(EVERYTHING) == sum(rows)


def test_two_agents_of_one_machine_with_states_of_their_own_double_nothing(machine: Machine, tmp_path: Path) -> None:
    first = machine("one")
    second = Bench(first.root, tmp_path / "other state", store=first.store, host="one")
    first.write("keep.txt")
    try:
        for word in ("amber", "birch", "cobalt"):
            first.write("a.md", LONG.format(word))
            first.note(f"{word}.md")
            assert at_once(first.run, second.run, seconds=300) == [None, None]
            first.run()  # what two runs did side by side, the next puts right
            second.run()
            holds_the_disk(first)
        is_settled(first)
        is_settled(second)
    finally:
        second.close()
