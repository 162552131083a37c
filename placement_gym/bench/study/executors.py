"""Where the runs of a study happen: here, in processes, or on a Ray cluster."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

from placement_gym.bench.run.watchdog import exit_with_parent
from placement_gym.bench.study.spec import Task
from placement_gym.bench.study.worker import Result, failed, run_task
from placement_gym.devices import usable_cores
from placement_gym.errors import EngineError, UserError

ATTEMPTS = 3
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


class WorkerLost(Exception):  # noqa: N818  a signal, not an error
    """The worker that had a task is gone."""


class Executor(Protocol):
    """Something that runs tasks."""

    @property
    def slots(self) -> int:
        """Tasks that it runs at once."""

    def submit(self, task: Task) -> Any:
        """Begin a task; returns what stands for it."""

    def finished(self, handles: Sequence[Any]) -> Iterable[Any]:
        """Some of the handles whose tasks have ended; waits for one."""

    def result(self, handle: Any) -> Result:
        """The row of an ended task.

        Raises:
            WorkerLost: Its worker is gone.
        """

    def close(self) -> None:
        """End all workers."""


def run_all(tasks: Sequence[Task], executor: Executor) -> Iterator[tuple[Task, Result]]:
    """Tasks with their rows, as they end.

    No more tasks are under way than the executor has slots, so that a lost worker takes few with
    it; those begin again, up to three times.
    """
    waiting, running = deque(tasks), dict[Any, Task]()
    lost: Counter[str] = Counter()
    while waiting or running:
        while waiting and len(running) < executor.slots:
            task = waiting.popleft()
            running[executor.submit(task)] = task
        for handle in executor.finished(list(running)):
            task = running.pop(handle)
            try:
                yield task, executor.result(handle)
            except WorkerLost as error:
                lost[task.key] += 1
                if lost[task.key] < ATTEMPTS:
                    waiting.appendleft(task)
                else:
                    yield task, failed(task, f"its worker was lost {ATTEMPTS} times: {error}")


class Serial:
    """In this process, one after another."""

    slots = 1

    def submit(self, task: Task) -> Future[Result]:
        future: Future[Result] = Future()
        future.set_result(run_task(task))
        return future

    def finished(self, handles: Sequence[Future[Result]]) -> Iterable[Future[Result]]:
        return handles

    def result(self, handle: Future[Result]) -> Result:
        return handle.result()

    def close(self) -> None:
        """Nothing to end."""


class Processes:
    """In processes of this machine, one thread each.

    Every slot has a pool of its own, so that a process which dies takes one task with it.

    Args:
        workers: How many; None takes the cores that this process may use.

    Raises:
        RuntimeError: Processes cannot start, as in a script without a main guard.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.slots = workers or usable_cores()
        os.environ.update(ONE_THREAD)
        self.idle = [new_pool() for _ in range(self.slots)]
        self.busy: dict[Future[Result], ProcessPoolExecutor] = {}
        try:
            self.idle[0].submit(os.getpid).result()
        except BrokenProcessPool:
            raise EngineError(
                "workers end as they start; a script that runs a study needs "
                "if __name__ == '__main__': around what it does"
            ) from None

    def submit(self, task: Task) -> Future[Result]:
        pool = self.idle.pop()
        try:
            future = pool.submit(run_task, task)
        except BrokenProcessPool:
            pool = new_pool()
            future = pool.submit(run_task, task)
        self.busy[future] = pool
        return future

    def finished(self, handles: Sequence[Future[Result]]) -> Iterable[Future[Result]]:
        return wait(handles, return_when=FIRST_COMPLETED).done

    def result(self, handle: Future[Result]) -> Result:
        pool = self.busy.pop(handle)
        try:
            row = handle.result()
        except BrokenProcessPool as error:
            self.idle.append(new_pool())
            raise WorkerLost(str(error)) from error
        self.idle.append(pool)
        return row

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        for pool in [*self.idle, *self.busy.values()]:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)


def new_pool() -> ProcessPoolExecutor:
    """One process, which starts with its first task."""
    return ProcessPoolExecutor(
        1, mp_context=get_context("spawn"), initializer=exit_with_parent, initargs=(os.getpid(),)
    )


class Ray:
    """On a Ray cluster, one core for each run.

    Args:
        address: Of a running cluster; None starts a local one. Where this process is connected to
            a cluster already, that one is taken.
        variables: Of the environment that workers need.

    Workers find the modules of the working directory, where they have it too.

    Raises:
        ValueError: Ray is not installed.
    """

    def __init__(
        self, address: str | None = None, variables: Mapping[str, str] | None = None
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise UserError("Ray is not installed: pip install ray") from error
        self.ray, self.started = ray, not ray.is_initialized()
        if self.started:
            path = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
            given = {"PYTHONPATH": path, **ONE_THREAD, **(variables or {})}
            ray.init(
                address=address or "local", log_to_driver=False, runtime_env={"env_vars": given}
            )
        remote = ray.remote(num_cpus=1, max_retries=0)
        self.remote = remote(run_task)

    @property
    def slots(self) -> int:
        """The cluster's cores, as they come and go."""
        return max(int(self.ray.cluster_resources().get("CPU", 1)), 1)

    def submit(self, task: Task) -> Any:
        return self.remote.remote(task)

    def finished(self, handles: Sequence[Any]) -> Iterable[Any]:
        done, _ = self.ray.wait(list(handles), num_returns=1)
        return done

    def result(self, handle: Any) -> Result:
        try:
            row: Result = self.ray.get(handle)
        except self.ray.exceptions.RayTaskError:
            raise
        except self.ray.exceptions.RayError as error:
            raise WorkerLost(str(error).splitlines()[0]) from error
        return row

    def close(self) -> None:
        """Leave the cluster; a local one ends."""
        if self.started:
            self.ray.shutdown()
