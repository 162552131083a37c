"""Where the runs of a study happen: in this process or on a Ray cluster; see also ``processes``."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from placement_gym.bench.run.agents import find_modules_in
from placement_gym.bench.run.environment import BenchEnvs
from placement_gym.bench.run.rows import Json
from placement_gym.bench.run.threads import ONE_THREAD, limit_threads
from placement_gym.bench.study.task import Task
from placement_gym.bench.study.worker import make_failed_row, run_task
from placement_gym.errors import UserError
from placement_gym.files import IMPORT_ROOT

ATTEMPTS = 3


class WorkerLost(Exception):  # noqa: N818  a signal, not an error
    """The worker that had a task is gone."""


class Executor(Protocol):
    """Something that runs tasks."""

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
        """

    def close(self) -> None:
        """End all workers."""


def run_all(tasks: Sequence[Task], executor: Executor) -> Iterator[tuple[Task, Json]]:
    """Run tasks and yield each with its row as it ends.

    No more tasks run at once than the executor has slots, so that few are lost with a worker; lost
    tasks begin again, up to three times.
    """
    waiting, running = deque(tasks), dict[Any, Task]()
    lost: Counter[str] = Counter()
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
                if lost[task.key] < ATTEMPTS:
                    waiting.appendleft(task)
                else:
                    message = f"its worker was lost {ATTEMPTS} times: {error}"
                    yield task, make_failed_row(task, message)


class Serial:
    """In this process, one after another, with one thread as in the other executors.

    Args:
        envs: Environments that are open already; the caller closes them.
        factories: Agents that cannot be imported: name -> factory or agent.
        on_evaluation: Called after each evaluation.
        share_within_seed: Whether consecutive runs with the same seed share measurements; runs
            with different seeds never do.
    """

    slots = 1

    def __init__(
        self,
        envs: BenchEnvs,
        factories: Mapping[str, Any] | None = None,
        on_evaluation: Callable[[], None] = lambda: None,
        share_within_seed: bool = False,
    ) -> None:
        self.envs, self.factories, self.on_evaluation = envs, factories, on_evaluation
        self.share_within_seed = share_within_seed
        self.last_seed: int | None = None

    def submit(self, task: Task) -> Future[Json]:
        future: Future[Json] = Future()
        with limit_threads():
            future.set_result(
                run_task(task, self.envs, self.factories, self.on_evaluation, self._anew(task))
            )
        return future

    def _anew(self, task: Task) -> bool:
        shared = self.share_within_seed and task.seed == self.last_seed
        self.last_seed = task.seed
        return not shared

    def wait(self, handles: Sequence[Future[Json]]) -> Iterable[Future[Json]]:
        return handles

    def result(self, handle: Future[Json]) -> Json:
        return handle.result()

    def close(self) -> None:
        """Do nothing: there are no workers to end."""


_WORKER_ENVS = BenchEnvs()
"""The open environments of a worker process."""


def run_in_worker(task: Task, folder: str = "") -> Json:
    """Run a task in a worker process, which keeps its environments for the next one.

    Args:
        task: What to run.
        folder: Where an agent that is ``module:attribute`` may be imported from.
    """
    if folder and ":" in task.agent:
        find_modules_in(folder)
    return run_task(task, _WORKER_ENVS)


class Ray:
    """On a Ray cluster, one core for each run.

    Workers import modules from this process's working directory, where they have it too.

    Args:
        address: Of a running cluster; None starts a local one. If this process is connected to a
            cluster already, that one is used.
        variables: Environment variables that workers need.

    Raises:
        UserError: Ray is not installed.
    """

    def __init__(
        self, address: str | None = None, variables: Mapping[str, str] | None = None
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise UserError('Ray is not installed: pip install "placement-gym[ray]"') from error
        self.ray, self.owns_cluster = ray, not ray.is_initialized()
        if self.owns_cluster:
            paths = filter(None, [os.environ.get("PYTHONPATH", ""), str(IMPORT_ROOT)])
            environment = {
                "PYTHONPATH": os.pathsep.join(paths),
                **ONE_THREAD,
                **(variables or {}),
            }
            ray.init(
                address=address or "local",
                log_to_driver=False,
                runtime_env={"env_vars": environment},
            )
        remote = ray.remote(num_cpus=1, max_retries=0)
        self.run_remotely = remote(run_in_worker)

    @property
    def slots(self) -> int:
        """The cluster's cores now; nodes may come and go."""
        return max(int(self.ray.cluster_resources().get("CPU", 1)), 1)

    def submit(self, task: Task) -> Any:
        return self.run_remotely.remote(task, str(Path.cwd()))

    def wait(self, handles: Sequence[Any]) -> Iterable[Any]:
        done, _ = self.ray.wait(list(handles), num_returns=1)
        return done

    def result(self, handle: Any) -> Json:
        try:
            row: Json = self.ray.get(handle)
        except self.ray.exceptions.RayTaskError:
            raise
        except self.ray.exceptions.RayError as error:
            raise WorkerLost(str(error).splitlines()[0]) from error
        return row

    def close(self) -> None:
        """Disconnect; a cluster that this executor started ends."""
        if self.owns_cluster:
            self.ray.shutdown()
