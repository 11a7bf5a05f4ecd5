"""Several agents at once while agents, service and engine are killed: nothing lost, nothing doubled, one service."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from markdown_rag.facade import Facade, IndexCall, Json
from tests.service.conftest import (
    BOUND,
    Environ,
    Opener,
    engines_of,
    indexed,
    lives,
    only_service,
    services_of,
    write_notes,
)
from tests.service.stdio import Died, StdioAgent
from tests.waiting import eventually, joined

KINDS = ("service", "engine", "agent")
PATIENCE = 3.0  # seconds in which a kind that was killed before may come up again
OPERATIONS = ("index", "index", "search", "search", "search", "edit", "edit", "delete", "cancel", "clear", "status")
# What an agent may be told while things die around it; everything else would be a fault.
CLEAR_ERRORS = {"job", "workspace", "not_found", "service", "store_unavailable", "input"}


@dataclass
class Storm:
    """What happened. errors: codes that agents saw; faults: answers that no agent should see."""

    done: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    faults: list[Json] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)  # of what was really there to be killed
    due: float = math.inf  # at so many operations the next kill is due, and no other one begins before it
    turn: threading.Condition = field(default_factory=threading.Condition)

    def count(self, counter: Counter[str], name: str) -> None:
        with self.turn:
            counter[name] += 1
            self.turn.notify_all()

    def wait_for_kill(self) -> None:
        with self.turn:
            assert self.turn.wait_for(lambda: self.done.total() < self.due, 2 * BOUND)

    def set_due(self, moment: float) -> None:
        with self.turn:
            self.due = moment
            self.turn.notify_all()

    def reached(self, moment: float, workers: Sequence[Worker]) -> bool:
        """Wait for so many operations; whether they came, before all workers had ended."""

        def over() -> bool:
            return self.done.total() >= moment or not any(worker.is_alive() for worker in workers)

        with self.turn:
            while not over():
                self.turn.wait(0.1)  # a worker's end tells nobody
            return self.done.total() >= moment


class Worker(threading.Thread):
    """One agent with a workspace of its own, and what it does."""

    def __init__(self, vault: Path, environ: Environ, operations: int, seed: int, storm: Storm) -> None:
        super().__init__()
        self.vault = vault
        self._environ = environ
        self._operations = operations
        self._random = random.Random(f"{seed} {vault.name}")
        self._storm = storm
        self.agent: StdioAgent | None = None
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            for number in range(self._operations):
                self._storm.wait_for_kill()
                operation = self._random.choice(OPERATIONS)
                self._perform(operation, number)
                self._storm.count(self._storm.done, operation)
        except BaseException as error:
            self.failure = error
            raise
        finally:
            if self.agent is not None:
                self.agent.close()

    def _perform(self, operation: str, number: int) -> None:
        files = sorted(self.vault.rglob("*.md"))
        match operation:
            case "edit":
                path = self.vault / f"note{self._random.randrange(12)}.md"
                path.write_text(f"# Note\n\nEdit {number} of {self.vault.name}.\n", encoding="utf-8")
            case "delete" if len(files) > 1:
                self._random.choice(files).unlink()
            case "index":
                self._call("index_documents", current_working_directory=str(self.vault))
            case "status":
                self._call("get_index_status", wait_seconds=2)
            case "cancel":
                self._call("cancel_index")
            case "clear":
                self._call("clear_index", workspace=str(self.vault), confirm=True)
            case _:
                self._call("search_documents", query=f"edit {number}", workspace="all")

    def _call(self, tool: str, **arguments: object) -> None:
        try:
            if self.agent is None:
                self.agent = StdioAgent(self._environ, self.vault)
            answer, is_error = self.agent.call(tool, **arguments)
        except Died:  # the host starts another
            if self.agent is not None:
                self.agent.close()
            self.agent = None
            return
        if is_error:
            self._storm.count(self._storm.errors, str(answer.get("code", answer.get("status"))))
            if answer.get("code") not in CLEAR_ERRORS or "failed with" in str(answer.get("error")):
                self._storm.faults.append({"tool": tool, **answer})


def kill_one(kind: str, workers: list[Worker], state: Path) -> bool:
    """Whether there was one."""
    victims: list[psutil.Process] = []
    if kind == "service":
        victims = services_of(state)
    elif kind == "engine":
        victims = engines_of(state)
    else:
        agents = [worker.agent for worker in workers if worker.is_alive()]
        for agent in agents:
            with contextlib.suppress(psutil.NoSuchProcess):
                if agent is not None and lives(victim := psutil.Process(agent.process.pid)):
                    victims.append(victim)
    for victim in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
            return True
    return False


def kill_any(kind: str, workers: list[Worker], state: Path) -> str:
    """Kill one of a kind, of another kind where none of it comes up within some time; which, "" where nothing lives."""
    with contextlib.suppress(AssertionError):
        eventually(lambda: kill_one(kind, workers, state), seconds=PATIENCE)
        return kind
    return next((other for other in KINDS if kill_one(other, workers, state)), "")


def weather(workers: list[Worker], state: Path, kills: int, seed: int, storm: Storm) -> None:
    """Run the workers, killing at seeded counts of operations done."""
    chance = random.Random(seed)
    total = sum(worker._operations for worker in workers)
    moments = sorted(chance.sample(range(total // 10, total), kills))
    storm.set_due(moments[0])
    for worker in workers:
        worker.start()
    for moment, following in itertools.zip_longest(moments, moments[1:], fillvalue=math.inf):
        kind = chance.choice(("service", *KINDS))
        for later in range(moment, total):  # one later where nothing lives yet
            storm.set_due(later)
            if storm.reached(later, workers) and (killed := kill_any(kind, workers, state)):
                storm.count(storm.kills, killed)
                break
        storm.set_due(following)
    joined(*workers, seconds=10 * BOUND)


def judge(agent: Opener, workers: list[Worker], state: Path) -> None:
    """Index each workspace once more and compare it with the disk."""
    facade: Facade = agent()
    for worker in workers:
        status = indexed(facade, worker.vault)
        assert status["status"] == "succeeded", status
        audit = facade.audit(IndexCall(root=str(worker.vault)))
        assert audit["findings"] == []
        on_disk = len(list(worker.vault.rglob("*.md")))
        assert facade.clear(str(worker.vault))["files"] == on_disk
    only_service(state)


def run_storm(
    agent: Opener, environ: Environ, state: Path, home: Path, *, agents: int, operations: int, kills: int, seed: int
) -> Storm:
    storm = Storm()
    vaults = [write_notes(home / f"vault{n}") for n in range(agents)]
    workers = [Worker(vault, environ, operations, seed, storm) for vault in vaults]
    weather(workers, state, kills, seed, storm)
    assert [worker.failure for worker in workers if worker.failure] == []
    assert storm.faults == []
    judge(agent, workers, state)
    return storm


@pytest.mark.parametrize("seed", [1])
def test_nothing_is_lost_or_doubled_when_agents_service_and_engine_are_killed(
    agent: Opener, environ: Environ, state_dir: Path, tmp_path: Path, seed: int
) -> None:
    storm = run_storm(agent, environ, state_dir, tmp_path, agents=3, operations=14, kills=5, seed=seed)
    assert sum(storm.done.values()) == 3 * 14
    assert sum(storm.kills.values()) == 5


@pytest.mark.slow
def test_eight_agents_of_a_hundred_operations_each_in_a_storm_of_kills(
    agent: Opener, environ: Environ, state_dir: Path, tmp_path: Path
) -> None:
    storm = run_storm(agent, environ, state_dir, tmp_path, agents=8, operations=100, kills=40, seed=7)
    assert sum(storm.done.values()) == 800
    assert sum(storm.kills.values()) == 40
    print(f"operations {dict(storm.done)}, kills {dict(storm.kills)}, clear errors {dict(storm.errors)}")


@pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_agents_that_ask_in_the_same_instant_on_a_cold_machine_share_one_service(
    environ: Environ, agent: Opener, state_dir: Path, tmp_path: Path, count: int
) -> None:
    gate, answers = threading.Barrier(count), []

    def one() -> None:
        server = StdioAgent(environ, tmp_path)
        gate.wait(BOUND)
        answers.append(server.call("search_documents", query="anything", workspace="all"))
        server.close()

    keeper = agent()  # connected last, so that the service is there to be counted
    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    joined(*threads, seconds=4 * BOUND)
    keeper.status()
    assert [(answer["hits"], error) for answer, error in answers] == [([], False)] * count
    only_service(state_dir)
