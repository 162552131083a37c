# White-box tests of bench
"""Problems are recognised by what they are, not by where their files lie."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from published_workloads import DATA
from studies import study

from placement_gym.bench.known import ProblemIdentity, identify, identify_row
from placement_gym.bench.run import BenchEnvs
from placement_gym.bench.study import run_task

WORKLOAD = DATA / "latency-inputs" / "LayerGraphs" / "bert24_inference.json"
SIM = "DevicePlacementSim-v0"


@pytest.fixture(scope="module")
def envs() -> Iterator[BenchEnvs]:
    with BenchEnvs() as opened:
        yield opened


def identity_of(envs: BenchEnvs, env: str = SIM, **kwargs: Any) -> ProblemIdentity | None:
    return identify(envs.get(env, kwargs).base.backend)


def test_the_path_and_the_spelling_do_not_matter(envs: BenchEnvs, tmp_path: Path) -> None:
    copy = shutil.copy(WORKLOAD, tmp_path / "bert24_inference.json")
    here = identity_of(envs, model=str(WORKLOAD), devices="1cpu+1acc@0.5")
    devices = [{"name": "CPU"}, {"name": "ACC.0", "weight_share": 0.5}]
    assert here == identity_of(envs, model=str(copy), devices=devices, schedule="list")
    one_by_one = {"model": str(WORKLOAD), "devices": devices, "reward": "final"}
    assert here == identity_of(envs, "DevicePlacementPerUnitSim-v0", **one_by_one)


@pytest.mark.parametrize(
    "change",
    [
        {"devices": "1cpu+1acc@0.4"},
        {"devices": "1cpu+1acc"},
        {"devices": "1cpu+2acc@0.5"},
        {"granularity": "op"},
        {"schedule": {"preset": "list", "order": "priority"}},
        {"objective": "throughput"},
        {"costs": "published-x1000"},
        {"model": str(WORKLOAD.with_name("resnet50_inference.json"))},
    ],
    ids=str,
)
def test_whatever_changes_a_latency_changes_the_identity(
    change: dict[str, Any], envs: BenchEnvs
) -> None:
    # training graphs have colour classes of several nodes, so that granularity matters
    training = DATA / "throughput-inputs" / "LayerGraphs" / "bert24_training.json"
    model = training if "granularity" in change else WORKLOAD
    given = {"model": str(model), "devices": "1cpu+1acc@0.5"}
    before, after = identity_of(envs, **given), identity_of(envs, **given | change)
    assert before is not None
    assert after is not None
    assert before.key != after.key


def test_two_cost_tables_of_one_name_are_two_problems(envs: BenchEnvs, tmp_path: Path) -> None:
    table = envs.get(SIM, {"model": "tiny"}).base.cost_table()
    path, keys = tmp_path / "costs.json", []
    for factor in (1.0, 1.0 + 1e-9):
        replace(table, operator_ms=factor * table.operator_ms).save(path)
        with BenchEnvs() as fresh:
            found = identity_of(fresh, model="tiny", costs=str(path))
            assert found is not None
            keys.append(found.key)
    assert keys[0] != keys[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"models": ["tiny"]},
        {"models": ["synthetic-layered-40"], "env_kwargs": {"granularity": "fused"}},
        {"models": ["tiny"], "env_kwargs": {"schedule": {"preset": "giph", "order": "priority"}}},
        {"models": [str(WORKLOAD)], "devices": ["1cpu+2acc@0.3"]},
        {
            "models": [str(WORKLOAD)],
            "devices": ["1cpu+2acc@0.3"],
            "env_kwargs": {"objective": "throughput"},
        },
    ],
    ids=str,
)
def test_a_row_has_the_identity_of_its_environment(
    changes: dict[str, Any], envs: BenchEnvs
) -> None:
    task = study(agents=["random-blocks"], **changes).tasks()[0]
    row = run_task(task, envs)
    found = identify_row(row)
    assert found is not None
    assert found.key == identify(envs.get(task.env, task.make_kwargs).base.backend).key  # type: ignore[union-attr]


def test_row_names_the_problem_where_it_was_scored_again(envs: BenchEnvs) -> None:
    scored = study(agents=["random-blocks"], models=["tiny"], score_on={"schedule": "placeto"})
    row = run_task(scored.tasks()[0], envs)
    there = identity_of(envs, model="tiny", devices="hsdag-paper", schedule="placeto")
    assert identify_row(row, row["score_on"]) == there
    assert identify_row(row, {"devices": "cpu+igpu"}) is None
    assert identify_row(row, {"env": "DevicePlacement-v0"}) is None


def test_measured_or_unplaced_problems_are_not_known(envs: BenchEnvs) -> None:
    row = run_task(study(agents=["random-blocks"], models=["tiny"]).tasks()[0], envs)
    assert identify_row(row) is not None
    assert identify_row(row | {"costs_fingerprint": None}) is None
    assert identify_row(row | {"placement": None}) is None
