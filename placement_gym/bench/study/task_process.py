"""``python -m placement_gym.bench.study.task_process``: runs the tasks that a study sends."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from placement_gym.base.processes.serving import Parent, serve
from placement_gym.bench.run.environment import BenchEnvs
from placement_gym.bench.run.rows import Json
from placement_gym.bench.study.task import Task
from placement_gym.bench.study.worker import run_task


class TaskProcess:
    """Answers a task with its row; environments stay open for the next one.

    Args:
        start: ``path``: where the parent imports modules from; it comes last here, so that it
            hides no module of this package.
        parent: Gets a sign of life with each evaluation.
    """

    def __init__(self, start: Json, parent: Parent) -> None:
        sys.path += [entry for entry in start["path"] if entry not in sys.path]
        self.envs = BenchEnvs()
        self.heartbeat = parent.heartbeat

    def __call__(self, request: Json) -> Any:
        self.heartbeat.count = 0
        beat = partial(self.heartbeat.touch_and_count, "the step after an evaluation")
        return run_task(Task(**request["task"]), self.envs, on_evaluation=beat)


if __name__ == "__main__":
    serve(TaskProcess)
