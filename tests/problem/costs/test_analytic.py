# White-box tests of problem.costs
"""Analytic costs, device presets, and the preset that is calibrated to published values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from graphs import op_graph

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.graph import OpGraph, group
from placement_gym.hardware import PRESETS, DeviceSpec
from placement_gym.problem import Problem
from placement_gym.problem.costs import ROOFLINES, analytic
from placement_gym.problem.costs.analytic import PUBLISHED_MS, REFERENCE_CORES

CPU_GPU = ("CPU", "GPU")


def worked(
    flops: float, size_bytes: int, kind: str = "MatMul", weight_bytes: int = 0, width: int = 10**6
) -> OpGraph:
    """An operator of some work, a Relu and a Reshape in a row, all of ``width`` outputs."""
    types = (kind, "Relu", "Reshape")
    graph = op_graph(3, [(0, 1), (1, 2)], types=types, size_bytes=size_bytes)
    weights, work = np.array([weight_bytes, 0, 0]), np.array([flops, 1.0, 1.0])
    return replace(graph, flops=work, weight_bytes=weights, shapes=((1, width),) * 3)


def test_operator_takes_a_launch_and_the_slower_of_two_rooflines() -> None:
    line = ROOFLINES["CPU"]
    graph = worked(flops=1e9, size_bytes=20_000_000, weight_bytes=1_000_000)
    times = analytic(graph, PRESETS["cpu+dgpu"]).operator_ms[:, 0]
    arithmetic_ms = 1e9 / (line.gflops["matmul"] * 1e9) * 1e3
    moved_ms = 40e6 / (line.gbytes_per_s * 1e9) * 1e3
    assert arithmetic_ms > moved_ms
    assert times == pytest.approx([line.launch_ms + arithmetic_ms, line.launch_ms + moved_ms, 0.0])


def test_weights_count_as_traffic() -> None:
    line = ROOFLINES["CPU"]
    heavy = worked(flops=1.0, size_bytes=0, weight_bytes=400_000_000)
    expected = line.launch_ms + 400e6 / (line.gbytes_per_s * 1e9) * 1e3
    assert analytic(heavy, [DeviceSpec("CPU")]).operator_ms[0, 0] == pytest.approx(expected)


def arithmetic_ms(device: DeviceSpec, kind: str = "MatMul") -> float:
    line = ROOFLINES[device.kind]
    return float(analytic(worked(1e12, 0, kind), [device]).operator_ms[0, 0] - line.launch_ms)


@pytest.mark.parametrize("name", ["GPU", "NPU"])
def test_half_precision_has_a_rate_of_its_own(name: str) -> None:
    factors = ROOFLINES[name].precision
    full, half = (arithmetic_ms(DeviceSpec(name, precision=p)) for p in ("f32", "f16"))
    assert full / half == pytest.approx(factors.get("f16", 1.0) / factors.get("f32", 1.0))
    assert full > half


def test_classes_of_operators_have_rates_of_their_own() -> None:
    gpu, rates = DeviceSpec("GPU"), ROOFLINES["GPU"].gflops
    dense, depthwise = (arithmetic_ms(gpu, f"{k}Convolution") for k in ("", "Group"))
    assert depthwise / dense == pytest.approx(rates["convolution"] / rates["depthwise"])


def test_a_device_that_must_be_filled_is_slower_on_few_outputs() -> None:
    paper, fill = PRESETS["hsdag-paper"][1], int(ROOFLINES["HSDAG-GPU"].fill_elements)
    full, wide, third = (
        analytic(worked(1e15, 0, width=width), [paper]).operator_ms[0, 0]
        for width in (fill, 9 * fill, fill // 3)
    )
    assert full == wide
    assert third / full == pytest.approx(3.0, rel=1e-3)


def test_a_model_that_computes_nothing_costs_nothing() -> None:
    views = op_graph(2, [(0, 1)], types=("Reshape", "Squeeze"))
    assert not analytic(views, PRESETS["cpu+dgpu"]).operator_ms.any()


def test_threads_share_the_arithmetic_of_a_cpu_up_to_its_cores() -> None:
    full = arithmetic_ms(DeviceSpec("CPU"))
    assert arithmetic_ms(DeviceSpec("CPU", threads=REFERENCE_CORES // 4)) == pytest.approx(4 * full)
    assert arithmetic_ms(DeviceSpec("CPU", threads=8 * REFERENCE_CORES)) == pytest.approx(full)


def test_transfers_are_a_star_around_the_hosts_memory() -> None:
    costs = analytic(worked(1.0, 6_000_000), PRESETS["cpu+2dgpu"])
    line = ROOFLINES["GPU"]
    way = line.link_ms + 6e6 / (line.link_gbytes_per_s * 1e9) * 1e3
    expected = way * np.array([[0, 1, 1], [1, 0, 2], [1, 2, 0]])
    np.testing.assert_allclose(costs.transfer_ms[0], expected)
    np.testing.assert_allclose(costs.boundary_ms[0], [0, way, way])


@pytest.mark.parametrize(
    ("preset", "names"),
    [
        ("cpu+igpu", ("CPU", "GPU")),
        ("cpu+dgpu", ("CPU", "GPU")),
        ("cpu+2dgpu", ("CPU", "GPU.0", "GPU.1")),
        ("cpu+igpu+npu", ("CPU", "GPU", "NPU")),
        ("hsdag-paper", ("CPU", "GPU")),
    ],
)
def test_preset_is_a_host_and_faster_devices_that_cost_a_launch(
    preset: str, names: tuple[str, ...]
) -> None:
    costs = gym.make("DevicePlacementSim-v0", model="tiny", devices=preset).unwrapped.cost_table()  # type: ignore[attr-defined]
    assert costs.devices == names
    assert costs.host.tolist() == [True] + [False] * (len(names) - 1)
    assert not costs.submodel_ms.any()
    large, small = (analytic(worked(f, 0, "Convolution"), PRESETS[preset]) for f in (1e11, 1e3))
    assert (large.operator_ms[0, 1:] < large.operator_ms[0, 0]).all()
    assert (small.operator_ms[0, 1:] > small.operator_ms[0, 0]).all()


@pytest.mark.parametrize(
    ("model", "published_ms"),
    [("inception", (12.8, 12.0)), ("resnet-fp16", (16.0, 7.81)), ("bert-8", (6.38, 2.77))],
)
def test_hsdag_paper_reproduces_the_published_single_devices(
    model: str, published_ms: tuple[float, float], graph_of: Callable[[str, str], OpGraph]
) -> None:
    units, devices = group(graph_of(model, "folded")), PRESETS["hsdag-paper"]
    costs = analytic(units.graph, devices)
    backend = SimulatedBackend(Problem(units, devices, costs.units_supported(units)), costs)
    singles = [
        backend.evaluate_ignoring_limits(backend.problem.single(d)).latency_ms for d in range(2)
    ]
    assert singles == pytest.approx(published_ms, rel=1e-3)


def test_model_is_the_papers_by_its_work_not_its_name(
    graph_of: Callable[[str, str], OpGraph],
) -> None:
    other = replace(graph_of("tiny", "folded"), model="resnet")
    assert analytic(other, PRESETS["hsdag-paper"]).source == "analytic"
    spelled = replace(graph_of("bert-8", "folded"), model="bert")
    total = analytic(spelled, PRESETS["hsdag-paper"]).operator_ms.sum(axis=0)
    assert total == pytest.approx(list(PUBLISHED_MS["bert"].values()))
