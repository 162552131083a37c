"""Run tasks: one after another, or in processes of this machine."""

from __future__ import annotations

import os
import select
import sys
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from placement_gym.base import EngineError
from placement_gym.base.processes import Child, ChildHungError, ChildLostError, ChildNotStartedError
from placement_gym.bench.run import BenchEnvs, Json, OnEvaluation, Task
from placement_gym.bench.study.worker import make_failed_row, run_task
from placement_gym.hardware import usable_cores

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
MAX_ATTEMPTS = 3
"""Times that a task is started: an out-of-memory kill may hit any worker. Hand-tuned."""
WORKER = "placement_gym.bench.study.worker"
TASK_TIMEOUT_S = 3600.0
"""Seconds without an evaluation after which a task counts as hung."""
POLL_S = 0.5
"""Seconds between two checks of the workers. Hand-tuned."""
Runs = Generator[tuple[Task, Json], None, None]
"""Tasks, each with its row as it ends."""


class WorkerLost(Exception):  # noqa: N818  a signal, not an error
    """The worker of a task is gone, perhaps because of the task."""


class WorkersMissing(WorkerLost):
    """There is no worker for a task: its node died, or the system starts no process."""


class OutageError(EngineError):
    """Workers are missing: some runs have no row."""


class Executor(Protocol):
    """Runs tasks in other processes; ``on_evaluation`` gets no speed-ups."""

    on_evaluation: OnEvaluation

    @property
    def slots(self) -> int:
        """Number of tasks that run at once."""

    def submit(self, task: Task) -> Any:
        """Begin a task; return a handle."""

    def wait(self, handles: Sequence[Any]) -> Iterable[Any]:
        """Wait until a task has ended; return the handles of all that have."""

    def result(self, handle: Any) -> Json:
        """The row of an ended task; ``WorkerLost`` if there is none."""

    def close(self) -> None:
        """End all workers."""


def run_all(tasks: Sequence[Task], executor: Executor) -> Runs:
    """Run tasks and yield each with its row as it ends; lost ones begin again, up to three times.

    After all others, raises an ``OutageError`` if tasks were lost for lack of workers.
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
    """Run tasks one after another in this process, with one thread; see ``run_task``.

    With ``share_within_seed``, consecutive runs of a seed share measurements.
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
    """Limit PyTorch, child processes and libraries loaded meanwhile to one thread."""

    def set_torch_threads(threads: int) -> None:
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(threads)

    earlier = {name: os.environ[name] for name in ONE_THREAD if name in os.environ}
    threads = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else usable_cores()
    os.environ.update(ONE_THREAD)
    set_torch_threads(1)
    try:
        yield
    finally:
        for name in ONE_THREAD:
            del os.environ[name]
        os.environ.update(earlier)
        set_torch_threads(threads)


@dataclass(eq=False)
class Running:
    """A task in a separate process.

    Attributes:
        child: The process; None if it did not start.
        lost: Why there is no row; None if there is one, or may be.
        counted: Evaluations that were reported.
    """

    task: Task
    child: Child | None = None
    lost: ChildLostError | None = None
    counted: int = 0


class Processes:
    """Runs tasks in processes of this machine, one thread each; one that hangs is ended.

    A script that runs a study needs no main guard.
    """

    def __init__(self, workers: int | None = None, timeout_s: float = TASK_TIMEOUT_S) -> None:
        self.slots = workers or usable_cores()
        self.on_evaluation: OnEvaluation = lambda speedup: None
        self.timeout_s = timeout_s
        self.idle: list[Child] = []
        self.busy: list[Running] = []

    def submit(self, task: Task) -> Running:
        running = Running(task)
        self.busy.append(running)
        try:
            running.child = self.idle.pop() if self.idle else self.start()
            running.child.send({"task": vars(task)}, self.timeout_s)
        except ChildLostError as error:
            running.lost = error
        return running

    def start(self) -> Child:
        path = [entry or str(Path.cwd()) for entry in sys.path]
        with limit_threads():
            return Child(WORKER, {"path": path}, keep_log=False)

    def wait(self, handles: Sequence[Running]) -> Iterable[Running]:
        while True:
            done = [running for running in handles if self.advance(running)]
            if done:
                return done
            answers = select.poll()
            for running in handles:
                if running.child is not None:
                    answers.register(running.child.pipe_out, select.POLLIN)
            answers.poll(1000.0 * POLL_S)

    def advance(self, running: Running) -> bool:
        """Report new evaluations of a process; return whether its task has ended."""
        if running.lost or running.child is None:
            return True
        if running.child.alive:
            _, count, _ = running.child.heartbeat.read()
            for _ in range(count - running.counted):
                self.on_evaluation(None)
            running.counted = max(count, running.counted)
        try:
            return running.child.wait(self.timeout_s, longest_s=0.0)
        except ChildLostError as error:
            running.lost = error
            return True

    def result(self, handle: Running) -> Json:
        self.busy.remove(handle)
        if handle.child is not None and handle.child.alive:
            self.idle.append(handle.child)
        if isinstance(handle.lost, ChildHungError):
            return make_failed_row(handle.task, f"its process hung: {handle.lost}")
        if isinstance(handle.lost, ChildNotStartedError):
            raise WorkersMissing(str(handle.lost))
        if handle.lost or handle.child is None:
            raise WorkerLost(str(handle.lost))
        row: Json = handle.child.take()
        return row

    def close(self) -> None:
        for child in [*self.idle, *(running.child for running in self.busy)]:
            if child is not None:
                child.end()
