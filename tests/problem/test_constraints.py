"""Constraints: what they bind, what they leave, and that everything respects them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from placement_gym.base import UserError
from placement_gym.envs import DevicePlacementEnv, placement_env
from placement_gym.problem import Constraints, sample_placements
from placement_gym.solvers import merge_submodels, serial_program
from placement_gym.solvers.search import search

STEM = ["stem/conv", "stem/add", "stem/relu"]


def constrained(constraints: Any, model: str = "tiny", **kwargs: Any) -> DevicePlacementEnv:
    options = {"granularity": "op", "devices": "cpu+dgpu", **kwargs}
    return placement_env(
        gym.make("DevicePlacementSim-v0", model=model, constraints=constraints, **options)
    )


def forbidden(env: DevicePlacementEnv) -> dict[str, list[str]]:
    """Device -> units that it may not run."""
    names, problem = env.problem.units.names, env.problem
    return {
        device: [name for name, allowed in zip(names, column, strict=True) if not allowed]
        for device, column in zip(problem.device_names, problem.supported.T, strict=True)
    }


@pytest.mark.parametrize(
    ("given", "cpu", "gpu"),
    [
        ({"keep_off": {"GPU": ["gate"]}}, [], ["gate"]),
        ({"keep_off": {"GPU": ["stem/*"]}}, [], STEM),
        ({"keep_off": {"GPU": ["layer:stem"]}}, [], STEM),
        ({"keep_off": {"GPU": ["layer:ste", "gate"]}}, None, None),
        ({"keep_off": {"CPU": ["type:Softmax"]}}, ["scores"], []),
        ({"keep_on": {"GPU": ["type:Si*", "scores"]}}, ["gate", "scores"], []),
        ({"inputs": "GPU", "outputs": "CPU"}, ["stem/conv"], ["scores"]),
    ],
)
def test_rules_bind_operators_by_name_type_and_layer(
    given: Any, cpu: list[str] | None, gpu: list[str] | None
) -> None:
    if cpu is None:
        with pytest.raises(UserError, match="nothing in the model matches keep_off GPU"):
            constrained(given)
        return
    assert forbidden(constrained(given)) == {"CPU": cpu, "GPU": gpu}


def test_rules_name_the_model_of_several() -> None:
    env = constrained({"keep_off": {"GPU": ["layer:cnn", "tiny/stem/*"]}}, "tiny+cnn")
    kept = forbidden(env)["GPU"]
    assert [name for name in kept if not name.startswith("cnn/")] == [f"tiny/{one}" for one in STEM]
    assert {name for name in env.problem.units.names if name.startswith("cnn/")} < set(kept)
    assert len(forbidden(constrained({"keep_off": {"GPU": ["type:Conv*"]}}, "tiny+cnn"))["GPU"]) > 4
    with pytest.raises(UserError, match=r"'stem/\*'; names begin with .* model: tiny/, cnn/"):
        constrained({"keep_off": {"GPU": ["stem/*"]}}, "tiny+cnn")


def test_a_folded_node_binds_the_operator_that_holds_it() -> None:
    free = constrained(None).problem.units.graph
    (folded,) = [one for one in free.members[0] if one not in free.names][:1]
    assert forbidden(constrained({"keep_off": {"GPU": [folded]}}))["GPU"] == ["stem/conv"]


def test_a_unit_is_bound_by_each_of_its_operators() -> None:
    env = constrained({"keep_off": {"GPU": ["left/add"]}}, granularity="colocated")
    (unit,) = forbidden(env)["GPU"]
    members = dict(zip(env.problem.units.names, env.problem.units.quotient.members, strict=True))
    assert {"left/conv", "left/add"} <= set(members[unit])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"keep_off": {"GPU": ["pool"]}, "keep_on": {"GPU": ["layer:pool"]}},
            r"unit 'pool' no device: keep_on GPU: 'layer:pool' and keep_off GPU: 'pool'",
        ),
        ({"keep_off": {"GPUU": ["pool"]}}, "did you mean 'GPU'"),
        ({"keep_of": {}}, "did you mean 'keep_off'"),
        ({"max_submodels": 0}, "max_submodels"),
        ("no-such-file.yaml", "cannot read"),
    ],
)
def test_what_cannot_be_respected_is_an_error_that_names_it(given: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        constrained(given)


def test_files_in_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    given = {"keep_off": {"GPU": ["gate"]}, "max_submodels": 2}
    (tmp_path / "a.yaml").write_text("keep_off:\n  GPU: [gate]\nmax_submodels: 2\n")
    (tmp_path / "a.json").write_text(json.dumps(given))
    (tmp_path / "none.yaml").write_text("# keep_off:\n#   GPU: [gate]\n")
    assert Constraints.parse(tmp_path / "none.yaml") == Constraints()
    for file in ("a.yaml", "a.json"):
        found = Constraints.parse(tmp_path / file)
        assert found.to_json() == given
        assert forbidden(constrained(str(tmp_path / file)))["GPU"] == ["gate"]


def test_masks_and_the_reference_follow_from_rules() -> None:
    env = constrained({"inputs": "GPU", "outputs": "CPU"})
    masks = env.action_masks().reshape(env.problem.n_units, 2)
    assert (masks == env.problem.supported).all()
    _, info = env.reset()
    assert info["latency_ms"] == info["reference_ms"] > 0
    assert info["best_single_ms"] == pytest.approx(10 * info["reference_ms"])
    *_, info = env.step(env.problem.single(0))
    assert not info["feasible"]
    assert "constraint keeps unit 'stem/conv' off CPU" in info["error"]
    moved = env.problem.move_unsupported(env.problem.single(0))
    assert env.step(moved)[4]["feasible"]


def test_solvers_stay_within_rules() -> None:
    free = constrained(None, "mobilenet", devices="cpu+2dgpu")
    first = free.problem.units.names[3]
    given = {"keep_off": {"GPU.0": [first]}, "keep_on": {"CPU": ["type:ReduceMean"]}}
    env = constrained(given | {"outputs": "GPU.1"}, "mobilenet", devices="cpu+2dgpu")
    problem, costs = env.problem, env.cost_table()
    solved = serial_program(problem, costs, 5.0).assignment
    assert solved is not None
    for assignment in (solved, search(problem, costs, evaluations=5).assignment):
        assert problem.infeasibility(assignment) == ""


def test_more_submodels_than_allowed_are_infeasible() -> None:
    env = constrained({"max_submodels": 2})
    checkered = np.arange(env.problem.n_units) % 2
    *_, info = env.step(checkered)
    assert not info["feasible"]
    assert "submodels, and a constraint allows 2 at most" in info["error"]
    rows = np.stack([checkered, env.problem.single(1)])
    assert env.backend.evaluate_batch(rows).feasible.tolist() == [False, True]


def test_simulator_and_problem_count_the_same_submodels() -> None:
    env = constrained({"max_submodels": 3}, "inception", granularity="colocated")
    for one in sample_placements(env.problem, 20, np.random.default_rng(0)):
        assert env.backend.infeasibility(one) == env.problem.infeasibility(one)


def test_search_merges_submodels_down_to_the_limit() -> None:
    rules = {"keep_off": {"GPU": ["type:MaxPool"]}}
    free = constrained(rules, "inception", granularity="colocated")
    env = constrained(rules | {"max_submodels": 3}, "inception", granularity="colocated")
    costs = env.cost_table()
    many = search(free.problem, costs, evaluations=5)
    few = search(env.problem, costs, evaluations=5)
    assert free.problem.count_submodels(many.assignment) > 3
    assert env.problem.count_submodels(few.assignment) <= 3
    assert env.backend.infeasibility(few.assignment) == ""
    assert few.latency_ms == env.backend.evaluate(few.assignment).latency_ms
    simulator = free.backend.simulator  # type: ignore[attr-defined]
    same = merge_submodels(free.problem, simulator, many.assignment)
    assert (same == many.assignment).all()
