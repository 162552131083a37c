"""Evaluated placements as datasets of Minari, for offline reinforcement learning."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from sys import maxsize
from typing import Any

import gymnasium as gym
import numpy as np

from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import UserError
from placement_gym.base.progress import progress_bar
from placement_gym.bench.known.best_known import name_problem
from placement_gym.bench.run.budget import BudgetedBackend
from placement_gym.bench.run.environment import BenchEnv, BenchEnvs, is_measured
from placement_gym.bench.run.rows import Json, group_by, load_runs
from placement_gym.bench.study.spec import LOG_OPTION
from placement_gym.bench.study.task import Task, read_make_kwargs
from placement_gym.bench.study.worker import run_task
from placement_gym.envs.per_unit import PerUnitEnv
from placement_gym.envs.placement_env import placement_env
from placement_gym.problem.placement import parse_assignment


def export_minari(
    folder: str | Path, name: str, rerun: bool = False, quiet: bool = False
) -> dict[str, int]:
    """Write a Minari dataset for each problem of a folder's results.

    An episode evaluates one placement in the environment of its row, without the graph in
    observations: ``dataset.recover_environment()`` makes that environment, whose ``graph_table()``
    has it. Rows hold the finalist of a run only. The metadata of an episode hold ``agent``,
    ``seed_of_agent``, ``latency_ms`` and ``feasible``.

    Args:
        folder: Where the results are; those of measured environments are left out.
        name: Namespace of the datasets.
        rerun: Whether agents search again, so that each different placement that a run evaluates
            is an episode.
        quiet: Show no progress.

    Returns:
        The number of episodes of each dataset, by its id.

    Raises:
        UserError: Minari is not installed; there are no such results; a dataset is there already;
            or an agent that would search again runs code of its own.
    """
    rows = [row for row in load_runs(Path(folder)) if row["latency_ms"] is not None]
    rows = [row for row in rows if not is_measured(row["env"])]
    if not rows:
        raise UserError(
            f"{folder} has no placements in a simulated environment: run a study of one first; "
            "what was measured cannot be evaluated again"
        )
    if rerun:
        check_agents(rows)
    problems = {make_id(name, key): own for key, own in group_by("problem", rows).items()}
    check_ids(problems)
    episodes: dict[str, int] = {}
    with BenchEnvs() as envs, progress_bar(len(rows), "rows", quiet) as progress:
        for dataset_id, of_problem in problems.items():
            progress.update(progress.task_ids[0], description=dataset_id)
            episodes[dataset_id] = write_dataset(dataset_id, of_problem, envs if rerun else None)
            progress.advance(progress.task_ids[0], len(of_problem))
    return episodes


def check_agents(rows: Sequence[Json]) -> None:
    """Raise if an agent runs code of its own, or writes logs.

    Raises:
        UserError: One does; whoever wrote the results would decide what runs here.
    """
    labels = {row["label"] for row in rows if ":" in row["agent"] or row["kwargs"].get(LOG_OPTION)}
    if labels:
        raise UserError(
            f"{', '.join(sorted(labels))} may run or write what the results say: export these "
            "results without --rerun"
        )


def make_id(name: str, problem: str) -> str:
    """The id of a problem's dataset, as ``mine/resnet-on-cpu-dgpu-v0``."""
    words = re.findall(r"[a-zA-Z0-9]+", name_problem(json.loads(problem)))
    return f"{name}/{'-'.join(words)}-v0"


def check_ids(ids: Iterable[str]) -> None:
    """Raise if Minari cannot write these datasets.

    Raises:
        UserError: It is not installed, or there is a dataset already.
    """
    try:
        from minari import list_local_datasets
        from minari.dataset.minari_dataset import parse_dataset_id
    except ModuleNotFoundError as error:
        raise UserError('Minari is not installed: pip install "minari[hdf5]"') from error
    datasets = list_local_datasets()
    for dataset_id in ids:
        try:
            parse_dataset_id(dataset_id)
        except ValueError as error:
            raise UserError(f"--minari takes a name of letters, digits and -: {error}") from error
        if dataset_id in datasets:
            raise UserError(
                f"there is a dataset {dataset_id} already: choose another name, or delete it by "
                f"`minari delete {dataset_id}`"
            )


def write_dataset(dataset_id: str, rows: Sequence[Json], rerun_in: BenchEnvs | None) -> int:
    """Write the dataset of one problem; returns its number of episodes.

    Args:
        dataset_id: Its id.
        rows: The rows of the problem.
        rerun_in: Where agents search again; None takes finalists alone.
    """
    import minari

    kwargs = {**read_make_kwargs(rows[0]), "observe_graph": False}
    episodes, about = list[Any](), list[Json]()
    with closing(BenchEnv.make(rows[0]["env"], kwargs).env) as env:
        for row in rows:
            finalist = parse_assignment(row["placement"], placement_env(env).problem)
            assignments = [*(search_again(row, rerun_in) if rerun_in else []), finalist]
            for placement in {
                assignment.tobytes(): assignment for assignment in assignments
            }.values():
                episode, cost = play_placement(env, placement, seed=len(episodes))
                episodes.append(episode)
                about.append({"agent": row["label"], "seed_of_agent": row["seed"], **cost})
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*is set to None", category=UserWarning)
            dataset = minari.create_dataset_from_buffers(
                dataset_id,
                episodes,
                env,
                algorithm_name=", ".join(sorted({row["label"] for row in rows})),
                description="Placements of a neural network on devices, and their simulated cost",
                data_format="hdf5",
            )
    dataset.storage.update_episode_metadata(about)
    return len(about)


def search_again(row: Json, envs: BenchEnvs) -> list[IntArray]:
    """The (n_units,) placements that a row's run evaluates, in their order."""
    task = replace(Task.of_row(row), score_on={})
    base = envs.get(task.env, task.make_kwargs).base
    budgeted = BudgetedBackend(base.backend, maxsize)
    with base.with_backend(budgeted):
        run_task(task, envs)
    return [evaluation.assignment for evaluation in budgeted.history]


def play_placement(env: gym.Env[Any, Any], placement: IntArray, seed: int) -> tuple[Any, Json]:
    """Evaluate an (n_units,) placement; returns an episode for Minari, and the cost."""
    from minari.data_collector import EpisodeBuffer

    # Minari's own collector needs jax, to append to nested lists
    padded = np.pad(placement, (0, placement_env(env).observer.n_nodes - len(placement)))
    actions = placement if isinstance(env.unwrapped, PerUnitEnv) else padded[None]
    first, _ = env.reset(seed=seed)
    steps = [env.step(action) for action in actions]
    observations = [first, *(step[0] for step in steps)]
    episode = EpisodeBuffer(
        seed=seed,
        observations={
            key: np.stack([observation[key] for observation in observations]) for key in first
        },
        actions=actions,
        rewards=[step[1] for step in steps],
        terminations=[step[2] for step in steps],
        truncations=[step[3] for step in steps],
    )
    info = steps[-1][4]
    return episode, {"latency_ms": float(info["latency_ms"]), "feasible": bool(info["feasible"])}
