# White-box tests of solvers.pipelines
"""Pipelines: the published values, and brute force on small graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from by_hand import chain, cost_table, feasible_ms, grouped, made_graph, problem_of
from pipelines import THROUGHPUT, draw_backend, is_pipeline, least_load_ms, plain_pipeline_ms
from published_workloads import published

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import UserError
from placement_gym.graph import group
from placement_gym.hardware import DeviceSpec
from placement_gym.problem import Problem
from placement_gym.solvers import Kinds, interchangeable_devices
from placement_gym.solvers import load_ms as divided_load_ms
from placement_gym.solvers.pipelines import (
    BY_CUT,
    TooManyIdealsError,
    exact_pipeline,
    linear_pipeline,
    pipeline,
)
from placement_gym.solvers.pipelines.ideal_chains import extend_chains
from placement_gym.solvers.pipelines.ideal_stages import ADDED, PipelineMemoryError
from placement_gym.solvers.pipelines.pipeline import (
    SplitSearch,
    find_exact,
    find_linear,
    narrow,
    price_devices,
)

SOLVERS = {"exact": exact_pipeline, "linear": linear_pipeline}
LAYERS, OPERATORS = "LayerGraphs", "OperatorGraphs"
VALUES = [
    (f"{LAYERS}/bert24_inference", 17.7899, 17.7899),
    (f"{LAYERS}/bert24_training", 41.7458, 41.7458),
    (f"{LAYERS}/resnet50_inference", 33.7747, 33.7747),
    (f"{LAYERS}/resnet50_training", 78.6318, 78.6498),
    (f"{LAYERS}/inceptionv3_inference", 51.5519, 51.5519),
    (f"{OPERATORS}/bert_l-3_inference", 27.9186, 27.9186),
    (f"{OPERATORS}/bert_l-3_training", 65.3031, 65.3031),
    (f"{OPERATORS}/resnet50_inference", 124.3488, 124.349),
]
"""Least largest load in ms by DP and by DPL (Tarnawski et al. 2020)."""
AXES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one device": {"kinds": "A"},
    "no host": {"kinds": "BBC"},
    "hosts": {"kinds": "AAB"},
    "kinds": {"kinds": "ABC"},
    "limits": {"limited": True},
    "support": {"refused": 0.3},
    "colours": {"coloured": True},
    "training": {"training": True},
    "everything": {"limited": True, "refused": 0.2, "coloured": True, "training": True},
}


def solve_ms(backend: SimulatedBackend, **kwargs: Any) -> float:
    """The load of the exact split; infinite if there is none."""
    try:
        return feasible_ms(backend, exact_pipeline(backend.problem, backend.costs, **kwargs))
    except TooManyIdealsError:
        raise
    except ValueError:
        return np.inf


@pytest.mark.parametrize(("name", "dp_ms", "dpl_ms"), VALUES)
def test_pipelines_reach_the_published_loads(name: str, dp_ms: float, dpl_ms: float) -> None:
    backend = published(f"throughput-inputs/{name}", THROUGHPUT)
    problem, costs = backend.problem, backend.costs
    assert feasible_ms(backend, linear_pipeline(problem, costs)) == pytest.approx(dpl_ms, rel=1e-4)
    assert feasible_ms(backend, exact_pipeline(problem, costs)) == pytest.approx(dp_ms, rel=5e-6)


@pytest.mark.slow
def test_inception_training_is_solved_unlike_by_the_published() -> None:
    backend = published("throughput-inputs/LayerGraphs/inceptionv3_training", THROUGHPUT)
    linear, exact = (
        solve(backend.problem, backend.costs) for solve in (linear_pipeline, exact_pipeline)
    )
    assert feasible_ms(backend, linear) == pytest.approx(123.9301, rel=1e-6)
    assert feasible_ms(backend, exact) == pytest.approx(122.7616, rel=1e-6)


@pytest.fixture(params=["all pairs", "cut-off"])
def cut_off(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small problems with a cut-off, which only larger ones need, and without."""
    if request.param == "cut-off":
        monkeypatch.setattr(pipeline, "FEW_IDEALS", 0)


@pytest.mark.usefixtures("cut_off")
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("seed", [1, 3, 5])
def test_no_pipeline_has_a_smaller_largest_load(axis: str, seed: int) -> None:
    backend = draw_backend(seed, n=1 + seed, idle=0.2, **AXES[axis])
    problem, costs = backend.problem, backend.costs
    assert solve_ms(backend) == pytest.approx(least_load_ms(backend))
    if np.isfinite(solve_ms(backend)):
        assert is_pipeline(backend, exact_pipeline(problem, costs))


@pytest.mark.parametrize("axis", AXES)
def test_larger_problems_equal_the_published_recursion(
    axis: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "FEW_IDEALS", 0)
    backend = draw_backend(0, n=9, **AXES[axis])
    assert solve_ms(backend) == pytest.approx(plain_pipeline_ms(backend))


@pytest.mark.parametrize("transfers", [ADDED, BY_CUT])
@pytest.mark.parametrize("axis", ["plain", "limits", "training"])
def test_variants_equal_the_plain_recursion(
    axis: str, transfers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(2):
        monkeypatch.setattr(pipeline, "FEW_IDEALS", 256 * seed)
        backend = draw_backend(seed, n=4 + seed, kinds="ABBB", **AXES[axis])
        search = SplitSearch(backend.problem, backend.costs, transfers=transfers)
        found = narrow(search, find_exact)
        assert found.load_ms == pytest.approx(plain_pipeline_ms(backend, transfers))


@pytest.mark.parametrize(("transfers", "load_ms"), [(ADDED, 11.0), (BY_CUT, 8.0)])
def test_a_row_of_two_by_hand(transfers: int, load_ms: float) -> None:
    """4 and 8 ms in a row on three equal devices, 3 ms to send and 3 to receive."""
    costs = cost_table(chain(2), [[4] * 3, [8] * 3], [6])
    search = SplitSearch(problem_of(grouped(chain(2)), costs), costs, transfers=transfers)
    assert narrow(search, find_linear).load_ms == load_ms


@pytest.mark.usefixtures("cut_off")
@pytest.mark.parametrize("axis", ["kinds", "limits"])
def test_stages_that_cost_something_are_worth_their_cost(axis: str) -> None:
    for seed in range(2):
        drawn = draw_backend(seed, n=3 + seed, idle=0.2, **AXES[axis])
        stage_ms = 6.0 * np.random.default_rng(seed).random(len(drawn.problem.devices))
        costs = replace(drawn.costs, submodel_ms=stage_ms)
        backend = SimulatedBackend(drawn.problem, costs, THROUGHPUT)
        assert solve_ms(backend) == pytest.approx(least_load_ms(backend))


def test_a_split_is_found_where_one_order_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "FEW_IDEALS", 0)
    for seed in (2, 5, 16, 24, 25):
        backend = draw_backend(seed, n=6, kinds="BCC", limited=True, refused=0.5)
        with pytest.raises(ValueError, match="no contiguous split fits"):
            linear_pipeline(backend.problem, backend.costs)
        assert solve_ms(backend) == pytest.approx(least_load_ms(backend))


@pytest.mark.usefixtures("cut_off")
@pytest.mark.parametrize("seed", range(10))
def test_one_order_is_never_better(seed: int) -> None:
    backend = draw_backend(seed, n=14, training=seed % 2 > 0)
    linear = linear_pipeline(backend.problem, backend.costs)
    assert is_pipeline(backend, linear)
    assert feasible_ms(backend, linear) >= solve_ms(backend) - 1e-9


def test_leaves_join_under_limits_only_if_proven_to_lose_nothing() -> None:
    outcomes = set()
    for seed in range(60):
        backend = draw_backend(seed, n=9, limited=True, idle=0.7)
        try:
            assert solve_ms(backend, max_ideals=30) == pytest.approx(solve_ms(backend))
            outcomes.add("solved")
        except TooManyIdealsError as error:
            outcomes.add(str(error))
    assert len(outcomes) == 3
    assert sum("memory limits keep leaves" in outcome for outcome in outcomes) == 1
    assert sum("dpl" in outcome for outcome in outcomes) == 2


def test_one_compiled_program_serves_all_problems() -> None:
    for seed in range(8):
        backend = draw_backend(seed, n=1 + seed, kinds="ABC"[: 1 + seed % 3])
        exact_pipeline(backend.problem, backend.costs)
    assert len(extend_chains.signatures) == 1


def test_what_fits_nowhere_is_refused() -> None:
    backend = draw_backend(4, n=6)
    problem = backend.problem
    tight = tuple(DeviceSpec(device.name, memory_bytes=0) for device in problem.devices)
    held = np.full(len(problem.units.graph), 10)
    for solver in (exact_pipeline, linear_pipeline):
        with pytest.raises(ValueError, match="no contiguous split fits"):
            solver(Problem(problem.units, tight, problem.supported, held), backend.costs)


def test_tables_that_would_not_fit_are_refused_early() -> None:
    backend = draw_backend(1, n=6, kinds="ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    with pytest.raises(PipelineMemoryError, match=r"2 GiB.*6.71e\+07 states.*dpl"):
        linear_pipeline(backend.problem, backend.costs)


def test_borders_that_would_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "BYTES_PER_ENTRY", pipeline.MAX_BYTES)
    backend = draw_backend(1, n=18)
    with pytest.raises(PipelineMemoryError, match="tensors on the borders"):
        exact_pipeline(backend.problem, backend.costs)


@pytest.mark.parametrize("seed", range(10))
def test_priced_work_is_the_least_divided_load(seed: int) -> None:
    backend = draw_backend(seed, n=9, kinds="ABBCC", refused=0.2)
    problem, costs = backend.problem, backend.costs
    kinds = Kinds(interchangeable_devices(problem, costs))
    ms = np.where(problem.supported, costs.unit_ms(problem.units), np.inf)[:, kinds.first]
    prices, work = price_devices(ms, kinds.counts)
    assert prices @ kinds.counts == pytest.approx(1.0)
    assert work.sum() == pytest.approx(divided_load_ms(problem, costs))
    unit, kind = np.nonzero(np.isfinite(ms))
    assert (work[unit] <= ms[unit, kind] * prices[kind] + 1e-12).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_pool_is_kept_or_the_split_refused(solver: str) -> None:
    graph = replace(made_graph(4, [(0, [1]), (1, [2]), (2, [3])]), weight_bytes=np.full(4, 100))
    costs = cost_table(graph, np.array([[9.0, 1.0, 1.0]] * 4), [0.0] * 3)
    free = problem_of(group(graph, "op"), costs)
    for pool_bytes, fits in ((399, False), (400, True)):
        host = [DeviceSpec(f"GPU.{i}", memory_bytes=pool_bytes, memory_pool="host") for i in (0, 1)]
        problem = replace(free, devices=(DeviceSpec("CPU"), *host))
        if fits:
            assert problem.infeasibility(SOLVERS[solver](problem, costs)) == ""
            continue
        with pytest.raises(UserError, match="memory pool 'host'"):
            SOLVERS[solver](problem, costs)
