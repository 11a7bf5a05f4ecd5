"""Who waits for whom in a service: calls that take long hold up none that do not."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from markdown_rag.facade import IndexCall, Json, SearchCall
from markdown_rag.jobs.owner import this_process
from markdown_rag.service import wire
from markdown_rag.service.host import LANE_THREADS, Host
from markdown_rag.service.methods import pack

MANY = max(LANE_THREADS.values())
LONG = {
    "searches that wait for what changed": ("search", (SearchCall("long", wait_for_fresh=True),)),
    "folders on a disk that does not answer": ("index", (IndexCall("/net/gone"),)),
}


class Slow:
    """A facade whose searches for what changed, and whose looks at a named folder, take until they are let go."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def index(self, call: IndexCall) -> Json:
        assert self.go_on.wait(60.0)
        return {"of": call.root}

    def search(self, call: SearchCall) -> Json:
        assert not call.wait_for_fresh or self.go_on.wait(60.0)
        return {"of": call.query}

    def cancel(self, job_id: str = "") -> Json:
        return {"of": job_id}


@pytest.mark.parametrize("kind", LONG)
def test_no_number_of_long_calls_holds_up_a_search_or_a_cancel(kind: str) -> None:
    facade = Slow()
    host = Host(lambda _: facade)  # type: ignore[arg-type,return-value]
    answers: list[Any] = []

    async def call(name: str, *arguments: Any) -> Json:
        packed, _ = pack(name, arguments, {})
        response = await host.answer(name, wire.request(wire.Agent(Path("/"), {}, this_process()), packed))
        return json.loads(bytes(response.body))["answer"]

    async def keep(name: str, *arguments: Any) -> None:
        answers.append(await call(name, *arguments))

    async def ask() -> None:
        name, arguments = LONG[kind]
        async with anyio.create_task_group() as tasks:
            try:
                for _ in range(MANY):
                    tasks.start_soon(keep, name, *arguments)
                await anyio.wait_all_tasks_blocked()
                with anyio.fail_after(30.0):
                    assert await call("search", SearchCall("quick")) == {"of": "quick"}
                    assert await call("cancel", "job") == {"of": "job"}
            finally:
                facade.go_on.set()

    anyio.run(ask)
    assert len(answers) == MANY
