"""The runs of a study in processes of this machine."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from placement_gym.base.processes import Child, ChildHungError, ChildLostError, ChildNotStartedError
from placement_gym.bench.run import Json, OnEvaluation, Task
from placement_gym.bench.study.executors import WorkerLost, WorkersMissing, limit_threads
from placement_gym.bench.study.worker import make_failed_row
from placement_gym.hardware import usable_cores

WORKER = "placement_gym.bench.study.worker"
TASK_TIMEOUT_S = 3600.0
"""Seconds without an evaluation after which a task counts as hung."""
POLL_S = 0.5
"""Seconds between two looks at the workers. Hand-tuned."""


@dataclass(eq=False)
class Running:
    """A task in a separate process.

    Attributes:
        task: What runs.
        child: Where; None if it could not start.
        lost: Why there is no row; None if there is one, or may be.
        counted: Evaluations that were reported.
    """

    task: Task
    child: Child | None = None
    lost: ChildLostError | None = None
    counted: int = 0


class Processes:
    """Runs tasks in processes of this machine, one thread each.

    A process that dies takes its one task with it, one that hangs is ended. A script that runs a
    study needs no main guard.

    Args:
        workers: Number of processes; None takes the cores that this process may use.
        timeout_s: Seconds without an evaluation after which a task counts as hung.
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
        """A new process."""
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
        """Listen to a process; returns whether its task has ended."""
        if running.lost or running.child is None:
            return True
        self.count(running)
        try:
            return running.child.wait(self.timeout_s, longest_s=0.0)
        except ChildLostError as error:
            running.lost = error
            return True

    def count(self, running: Running) -> None:
        """Report the evaluations that are new."""
        if running.child is None or not running.child.alive:
            return
        _, count, _ = running.child.heartbeat.read()
        for _ in range(count - running.counted):
            self.on_evaluation(None)
        running.counted = max(count, running.counted)

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
        """Kill all workers."""
        for child in [*self.idle, *(running.child for running in self.busy)]:
            if child is not None:
                child.end()
