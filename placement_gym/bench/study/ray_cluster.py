"""The runs of a study on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from placement_gym.base import IMPORT_ROOT, UserError
from placement_gym.bench.run import Json, OnEvaluation, Task, find_modules_in
from placement_gym.bench.study.executors import (
    ONE_THREAD,
    TASK_TIMEOUT_S,
    OutageError,
    Processes,
    WorkerLost,
    WorkersMissing,
    run_all,
)


def run_in_worker(task: Task, folder: str, timeout_s: float) -> Json:
    """Run a task in a process of a worker of Ray: one that crashes or hangs has a row as well.

    An agent that is ``module:attribute`` may be imported from the folder.
    """
    if ":" in task.agent:
        find_modules_in(folder)
    ((_, row),) = run_all([task], processes_of_worker(timeout_s))
    return row


@cache
def processes_of_worker(timeout_s: float) -> Processes:
    """The one process of a worker of Ray, kept for the next task."""
    return Processes(1, timeout_s=timeout_s)


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


class Ray:
    """Runs tasks on a Ray cluster, one core each.

    Without an address a local cluster is started, unless this process is connected to one. Workers
    get ``variables`` as environment variables, and import from the working directory if they have
    it.
    """

    def __init__(
        self,
        address: str | None = None,
        variables: Mapping[str, str] | None = None,
        timeout_s: float = TASK_TIMEOUT_S,
    ) -> None:
        try:
            import ray
        except ModuleNotFoundError as error:
            raise UserError('Ray is not installed: pip install "placement-gym[ray]"') from error
        self.ray, self.owns_cluster = ray, not ray.is_initialized()
        self.timeout_s = timeout_s
        self.on_evaluation: OnEvaluation = lambda speedup: None  # workers do not report them
        if self.owns_cluster:
            paths = filter(None, [os.environ.get("PYTHONPATH", ""), str(IMPORT_ROOT)])
            environment = {"PYTHONPATH": os.pathsep.join(paths), **ONE_THREAD, **(variables or {})}
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
        with self.explain_outage():
            return max(int(self.ray.cluster_resources().get("CPU", 1)), 1)

    def submit(self, task: Task) -> Any:
        with self.explain_outage():
            return self.run_remotely.remote(task, str(Path.cwd()), self.timeout_s)

    def wait(self, handles: Sequence[Any]) -> Iterable[Any]:
        with self.explain_outage():
            done, _ = self.ray.wait(list(handles), num_returns=1)
        return done

    def result(self, handle: Any) -> Json:
        exceptions = self.ray.exceptions
        try:
            row: Json = self.ray.get(handle)
        except exceptions.RayTaskError as error:
            if isinstance(error.cause, OutageError):
                raise WorkersMissing(str(error.cause)) from error
            raise
        except (exceptions.WorkerCrashedError, exceptions.OutOfMemoryError) as error:
            raise WorkerLost(first_line(error)) from error
        except exceptions.RayError as error:
            raise WorkersMissing(first_line(error)) from error
        return row

    @contextmanager
    def explain_outage(self) -> Iterator[None]:
        try:
            yield
        except (self.ray.exceptions.RayError, ConnectionError) as error:
            raise OutageError(f"the Ray cluster does not answer: {first_line(error)}") from error

    def close(self) -> None:
        """Disconnect, which ends a cluster that this executor started."""
        if self.owns_cluster:
            self.ray.shutdown()
