"""Replays of rows that may be a stranger's, in a process of their own that can be ended."""

from __future__ import annotations

from typing import Any

from placement_gym.base.errors import UserError
from placement_gym.base.processes.child import Child, ChildHungError, ChildLostError, RemoteError
from placement_gym.base.processes.serving import Parent, serve
from placement_gym.bench.run.environment import BenchEnvs
from placement_gym.bench.run.rows import Json
from placement_gym.bench.study.replay import check_row
from placement_gym.bench.study.row_limits import check_row_task
from placement_gym.bench.study.task import Task

MODULE = "placement_gym.bench.study.replay_process"


class IsolatedReplays:
    """Replays rows of any problem within a time limit."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.child: Child | None = None

    def check(self, row: Json) -> str:
        """As ``check_row``; a row that names more than the package has is not replayed."""
        try:
            check_row_task(Task.of_row(row))
        except UserError as error:
            return str(error)
        try:
            if self.child is None or not self.child.alive:
                self.child = Child(MODULE, {})
            return str(self.child.call({"row": row}, self.timeout_s))
        except ChildHungError:
            return f"its replay takes more than {self.timeout_s:g} s: --timeout allows more"
        except (ChildLostError, RemoteError) as error:
            return f"cannot be replayed: {error}"

    def close(self) -> None:
        """End the process."""
        if self.child is not None:
            self.child.end()


class ReplayProcess:
    """Answers a row with why it is not valid; environments stay open for the next one."""

    def __init__(self, start: Json, parent: Parent) -> None:
        self.envs = BenchEnvs()

    def __call__(self, request: Json) -> Any:
        return check_row(request["row"], self.envs)


if __name__ == "__main__":
    serve(ReplayProcess)
