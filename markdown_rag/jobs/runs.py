"""One job being carried out in this process: its thread, its live figures, its stop word, and how it ended."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from markdown_rag.clock import StopSignal, stoppable
from markdown_rag.errors import Cancelled, EmbeddingUnavailable, FastRagError, StoreUnavailable
from markdown_rag.indexing.report import Progress
from markdown_rag.jobs.job import CANCEL_NOTE, STOPPED_ERROR, Broken, Done, Job, Outcome, Stopped

RunJob = Callable[[Job, Progress, StopSignal], Mapping[str, Any]]
NO_THREAD = Broken("The system let this process start no thread for the job.", resumable=True)
NOT_BEGUN = Broken("Something failed before the job began; the server's error output may tell what.", resumable=True)
_PASSING = (EmbeddingUnavailable, StoreUnavailable)  # errors after which the same request, unchanged, can succeed


@dataclass(slots=True, eq=False)
class LiveRun:
    """A running job of this process.

    outcome: None until the run has ended; kept until it is written down. unwritten: that was tried, and failed.
    """

    job: Job
    progress: Progress = field(default_factory=Progress)
    stop: StopSignal = field(default_factory=StopSignal)
    outcome: Outcome | None = None
    unwritten: bool = False
    thread: threading.Thread | None = None

    def launch(self, run: RunJob, ended: Callable[[LiveRun, Outcome], None]) -> None:
        """Carry the job out in a thread of its own; ended is called there, last, with the outcome.

        Raises RuntimeError or MemoryError where the system gives no thread.
        """
        # A daemon: a run that hangs in a foreign library must not keep the process from leaving.
        thread = threading.Thread(target=self._work, args=(run, ended), name=f"job-{self.job.id}", daemon=True)
        thread.start()
        self.thread = thread

    def _work(self, run: RunJob, ended: Callable[[LiveRun, Outcome], None]) -> None:
        outcome: Outcome = Stopped(CANCEL_NOTE)
        try:
            with stoppable(self.stop):
                outcome = Done(_checked(run(self.job, self.progress, self.stop)))
        except Cancelled as error:
            outcome = Stopped(str(error))
        except FastRagError as error:
            outcome = Broken(str(error), resumable=isinstance(error, _PASSING))
        except BaseException as error:
            # Not ours, so a fault of this program: the job says so, the thread's traceback tells the rest.
            outcome = Broken(_unexpected(error), resumable=False)
            raise
        finally:
            self.outcome = outcome
            ended(self, outcome)


def at_shutdown(outcome: Outcome | None) -> Outcome:
    """How a job ends whose process is stopping: what was complete stays so, what was cut short can be resumed."""
    return outcome if isinstance(outcome, Done | Broken) else Broken(STOPPED_ERROR, resumable=True)


def _checked(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result, proved to be JSON here, where a fault still ends this job and no other."""
    json.dumps(result)
    return result


def _unexpected(error: BaseException) -> str:
    return (
        f"An unexpected {type(error).__name__} ended the job; what was stored is kept. "
        "The server's error output has the details; please report it."
    )
