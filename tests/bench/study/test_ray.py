# White-box tests of bench.study
"""Studies on a Ray cluster of two nodes on this machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import find_processes
from studies import timeless

from placement_gym.bench.study import Study, run_study
from placement_gym.bench.study.executors import run_all
from placement_gym.bench.study.ray_cluster import Ray

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ray = pytest.importorskip("ray", reason="needs the extra 'ray'")

VALUES: dict[str, Any] = {
    "env": "DevicePlacementSim-v0",
    "models": ["tiny", "resnet"],
    "devices": ["hsdag-paper"],
    "agents": ["annealing", "random"],
    "seeds": 6,
    "budget": 3000,
}


@pytest.fixture
def nodes() -> Iterator[Any]:
    """A cluster of two nodes, one core each."""
    from ray.cluster_utils import Cluster

    both = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    both.second = both.add_node(num_cpus=1)
    both.wait_for_nodes()
    yield both
    both.shutdown()


@pytest.fixture
def cluster(nodes: Any) -> Iterator[Any]:
    """The same, with this process connected to it."""
    ray.init(address=nodes.address, log_to_driver=False)
    yield nodes
    ray.shutdown()


def workers() -> list[int]:
    """Processes that run a task of Ray now."""
    return find_processes("cmdline", lambda text: text.startswith(b"ray::run_in_worker"))


def test_the_rows_are_those_of_a_serial_run(cluster: Any, tmp_path: Path) -> None:
    study = Study.from_dict(VALUES | {"seeds": 2, "budget": 50})
    on_ray = run_study(study, tmp_path / "ray", "ray", quiet=True)
    serial = run_study(study, tmp_path / "serial", "serial", quiet=True)
    assert timeless(on_ray) == timeless(serial)


def test_a_killed_worker_loses_no_run(cluster: Any) -> None:
    tasks, executor = Study.from_dict(VALUES).tasks(), Ray()
    assert executor.slots == 2
    rows, killed = [], 0
    for _, row in run_all(tasks, executor):
        rows.append(row)
        if killed < 2:
            for pid in workers()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed += 1
    assert killed
    assert sorted(row["key"] for row in rows) == sorted(task.key for task in tasks)
    assert not any(row["error"] for row in rows)


def test_tasks_that_crash_or_hang_are_error_rows_and_others_end(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2] / "support")  # where workers find the agents
    agents = ["fatal_agent:crash", "fatal_agent:hang", "fatal_agent:leave", "random"]
    study = Study.from_dict(
        VALUES | {"models": ["tiny"], "agents": agents, "seeds": 1, "budget": 20}
    )
    rows = run_study(study, tmp_path, "ray", quiet=True, timeout_s=15.0)
    crashed, hung, left, good = [row["error"] for row in rows]
    assert "lost 3 times: killed by SIGSEGV" in crashed
    assert "took more than 15 s" in hung
    assert left == "SystemExit: 3"
    assert good == ""


def test_a_lost_node_loses_no_run(cluster: Any) -> None:
    tasks, executor = Study.from_dict(VALUES).tasks(), Ray()
    rows = []
    for _, row in run_all(tasks, executor):
        rows.append(row)
        if len(rows) == 3:
            cluster.remove_node(cluster.second, allow_graceful=False)
    assert sorted(row["key"] for row in rows) == sorted(task.key for task in tasks)
    assert not any(row["error"] for row in rows)


def test_a_local_cluster_is_started_where_none_runs(tmp_path: Path) -> None:
    study = Study.from_dict(VALUES | {"seeds": 1, "budget": 20})
    rows = run_study(study, tmp_path, "ray", quiet=True)
    assert not any(row["error"] for row in rows)
    assert not ray.is_initialized()


def test_remote_workers_find_models_and_agents(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import openvino as ov

    from placement_gym import models

    ov.save_model(models.load_model("tiny"), tmp_path / "small.xml")
    (tmp_path / "my_agent.py").write_text("from agents.static import single_device as make\n")
    monkeypatch.setenv("MODELS", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    changes = {"models": ["${MODELS}/small.xml"], "agents": ["my_agent:make"], "seeds": 2}
    study = Study.from_dict(VALUES | changes)
    rows = run_study(study, tmp_path / "out", "ray", address=nodes.address, quiet=True)
    assert [row["error"] for row in rows] == ["", ""]
    assert not ray.is_initialized()
