# White-box tests of bench
"""The best known values that come with the package."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import openvino as ov
import pytest
from published_workloads import DATA

from placement_gym.base import UserError
from placement_gym.bench.known import (
    VALUES,
    BestKnown,
    ProblemIdentity,
    digest,
    find_best_known,
    identify,
    load_values,
    save_values,
)
from placement_gym.bench.report import evaluate_ms
from placement_gym.bench.run import BenchEnvs
from placement_gym.bench.study import Study

SHIPPED = load_values(VALUES)


@pytest.fixture(scope="module")
def envs(built: Callable[[str], ov.Model]) -> Iterator[BenchEnvs]:
    """Environments of built-in models that are built once, and of the workloads of the tests."""
    with pytest.MonkeyPatch.context() as patch, BenchEnvs() as opened:
        patch.setenv("DNN_PARTITIONING", str(DATA))
        patch.setattr("placement_gym.models.load_model", lambda model, length: built(model))
        yield opened


def test_no_value_is_below_its_bound() -> None:
    exact = 1 + 1e-9
    assert not [one.name for one in SHIPPED if not 0 <= one.bound_ms <= one.latency_ms * exact]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(value, id=value.name, marks=pytest.mark.slow if i % 8 else ())
        for i, value in enumerate(SHIPPED)
    ],
)
def test_every_value_is_what_its_placement_takes(
    value: BestKnown, envs: BenchEnvs, known_script: ModuleType
) -> None:
    backend = known_script.open_backend(value.problem, envs)
    assert identify(backend) == value.identity
    assert evaluate_ms(backend, value.assignment) == pytest.approx(value.latency_ms, rel=1e-9)
    assert known_script.find_best_single_ms(backend) == pytest.approx(
        value.best_single_ms, rel=1e-9
    )
    assert find_best_known(value.identity) == value


@pytest.mark.parametrize(
    "name",
    ["paper", "memory-limited", "transfer", pytest.param("mismatch", marks=pytest.mark.slow)],
)
def test_every_problem_of_a_simulated_study_has_a_value(name: str, envs: BenchEnvs) -> None:
    study = Study.load(name)
    for task in {task.problem: task for task in study.tasks()}.values():
        assert find_best_known(identify(envs.get(task.env, task.make_kwargs).base.backend))
        if elsewhere := task.elsewhere:
            scored = envs.get(elsewhere.env, elsewhere.make_kwargs)
            assert find_best_known(identify(scored.base.backend))


def digest_set(study: Study, identities: Sequence[ProblemIdentity | None]) -> str:
    """Sixteen hex digits of a study's problems, seeds and budget."""
    keys = [identity and identity.key for identity in identities]
    return digest(json.dumps([keys, study.all_seeds, study.budget]))


def test_the_fixed_set_of_problems_never_changes(envs: BenchEnvs) -> None:
    study = Study.load("placement-bench-1")
    tasks = {task.problem: task for task in study.tasks()}.values()
    identities = [identify(envs.get(task.env, task.make_kwargs).base.backend) for task in tasks]
    assert all(find_best_known(identity) for identity in identities)
    assert digest_set(study, identities) == "707f0492eb7697a8"


def test_values_are_saved_as_they_were_read_a_line_for_each(tmp_path: Path) -> None:
    path = tmp_path / "values.json"
    save_values(SHIPPED[::-1], path)
    assert path.read_text() == VALUES.read_text()
    assert load_values(path) == SHIPPED
    assert len(path.read_text().splitlines()) == len(SHIPPED) + 2
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_no_problem_has_two_values() -> None:
    assert len({value.identity.key for value in SHIPPED}) == len(SHIPPED)


@pytest.mark.parametrize("text", ['{"format": 2}', "[{}]", '[{"identity": 3}]', "[", '["x"]'])
def test_a_damaged_file_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(UserError, match=r"odd\.json is not a file of best known values"):
        load_values(tmp_path / "odd.json")


def test_only_a_split_faster_than_one_device_is_not_trivial() -> None:
    values = [value for value in SHIPPED if value.best_single_ms is not None]
    for value in values:
        alone = len(np.unique(value.assignment)) == 1
        assert value.trivial or not alone
        assert not value.trivial or value.best_single_ms == pytest.approx(
            value.latency_ms, rel=1e-4
        )
    assert {value.trivial for value in values} == {True, False}
