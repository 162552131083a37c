"""How runs are executed: one after another here, or by an executor; see ``processes``."""

from __future__ import annotations

import os
import sys
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Protocol

from placement_gym.base import EngineError
from placement_gym.bench.run import BenchEnvs, Json, OnEvaluation, Task
from placement_gym.bench.study.worker import make_failed_row, run_task
from placement_gym.hardware import usable_cores

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
MAX_ATTEMPTS = 3
"""Times that a run is started whose worker is lost. Hand-tuned, because an out-of-memory kill may
hit any process."""
Runs = Generator[tuple[Task, Json], None, None]
"""Tasks, each with its row as it ends."""


class WorkerLost(Exception):  # noqa: N818  a signal, not an error
    """The worker that had a task is gone, perhaps by the task's fault."""


class WorkersMissing(WorkerLost):
    """There is no worker for a task: its node died, or the system has no process for it now."""


class OutageError(EngineError):
    """What runs tasks does not work: runs that have no row are still to be done."""


class Executor(Protocol):
    """Runs tasks in other processes.

    Attributes:
        on_evaluation: See ``OnEvaluation``; of other processes the speed-up is not known.
    """

    on_evaluation: OnEvaluation

    @property
    def slots(self) -> int:
        """Tasks that it runs at once."""

    def submit(self, task: Task) -> Any:
        """Begin a task; returns a handle."""

    def wait(self, handles: Sequence[Any]) -> Iterable[Any]:
        """Wait until a task has ended; returns the handles of those that have."""

    def result(self, handle: Any) -> Json:
        """The row of an ended task.

        Raises:
            WorkerLost: Its worker is gone.
            WorkersMissing: By no fault of the task's.
        """

    def close(self) -> None:
        """End all workers."""


def run_all(tasks: Sequence[Task], executor: Executor) -> Runs:
    """Run tasks and yield each with its row as it ends.

    No more tasks run at once than the executor has slots, so that few are lost with a worker; lost
    tasks begin again, up to three times.

    Raises:
        OutageError: Tasks were lost so often for lack of workers, which says nothing of them; all
            others have been yielded.
    """
    waiting, running = deque(tasks), dict[Any, Task]()
    lost: Counter[str] = Counter()
    outage: WorkersMissing | None = None
    while waiting or running:
        while waiting and len(running) < executor.slots:
            task = waiting.popleft()
            running[executor.submit(task)] = task
        for handle in executor.wait(list(running)):
            task = running.pop(handle)
            try:
                yield task, executor.result(handle)
            except WorkerLost as error:
                lost[task.key] += 1
                if lost[task.key] < MAX_ATTEMPTS:
                    waiting.appendleft(task)
                elif isinstance(error, WorkersMissing):
                    outage = error
                else:
                    message = f"its worker was lost {MAX_ATTEMPTS} times: {error}"
                    yield task, make_failed_row(task, message)
    if outage is not None:
        raise OutageError(f"no worker could be had for some runs: {outage}") from outage


def run_in_workers(
    tasks: Sequence[Task], on_evaluation: OnEvaluation, make: Callable[[], Executor]
) -> Runs:
    """Run tasks in an executor, which is made for them; see ``run_all``."""
    with closing(make()) as executor:
        executor.on_evaluation = on_evaluation
        yield from run_all(tasks, executor)


def run_serially(
    tasks: Sequence[Task],
    on_evaluation: OnEvaluation,
    envs: BenchEnvs,
    factories: Mapping[str, Any] | None = None,
    share_within_seed: bool = False,
) -> Runs:
    """Run tasks in this process, one after another, with one thread as executors do.

    Args:
        tasks: What to run.
        on_evaluation: See ``OnEvaluation``.
        envs: Environments that are open already; the caller closes them.
        factories: Agents that cannot be imported: name -> factory or agent.
        share_within_seed: Whether consecutive runs with the same seed share measurements; runs
            with different seeds never do.
    """
    last_seed = None
    for task in tasks:
        forget = not (share_within_seed and task.seed == last_seed)
        last_seed = task.seed
        with limit_threads():
            row = run_task(task, envs, factories, on_evaluation, forget)
        yield task, row


@contextmanager
def limit_threads() -> Iterator[None]:
    """Limit PyTorch, child processes and libraries that are loaded inside to one thread.

    Afterwards the environment variables and PyTorch's threads are as before.
    """
    earlier = {name: os.environ[name] for name in ONE_THREAD if name in os.environ}
    threads = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else usable_cores()
    os.environ.update(ONE_THREAD)
    _set_torch_threads(1)
    try:
        yield
    finally:
        for name in ONE_THREAD:
            del os.environ[name]
        os.environ.update(earlier)
        _set_torch_threads(threads)


def _set_torch_threads(threads: int) -> None:
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
