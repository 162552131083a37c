"""What ``gym.make`` calls: environments from JSON-able arguments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.backends.cached import CachedBackend
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.costs import analytic
from placement_gym.devices import DevicesArgument, machine_devices, parse_devices, register
from placement_gym.env import DevicePlacementEnv
from placement_gym.graph.extract import extract
from placement_gym.graph.operators import OpGraph
from placement_gym.graph.primitives import executed_primitives
from placement_gym.graph.units import Units, group
from placement_gym.models import load
from placement_gym.problem import Problem
from placement_gym.wrappers import PerUnit

if TYPE_CHECKING:
    import openvino as ov


class MeasuredEnv(DevicePlacementEnv):
    """``DevicePlacement-v0``: every placement is compiled and timed by OpenVINO.

    Args:
        model: Built-in name, path of a file that OpenVINO reads, or ``ov.Model``.
        devices: Preset, names or specifications; None takes the machine's devices, or the preset
            ``cpu-testbed`` on a machine with a single one.
        granularity: What a unit is: ``"op"``, ``"colocated"`` or ``"fused"``.
        graph: ``"folded"`` or ``"raw"``.
        reward: See ``DevicePlacementEnv``.
        horizon: See ``DevicePlacementEnv``.
        split: ``"alias"``, ``"hetero"`` or ``"auto"``, see ``placement_gym.compile_model``.
        warmup: Inferences before the first counted one.
        repeats: Counted inferences of candidate and reference, each.
        cache: Answer a repeated placement from memory.
        max_nodes: See ``DevicePlacementEnv``.
        max_edges: See ``DevicePlacementEnv``.
        observe_graph: See ``DevicePlacementEnv``.
        render_mode: See ``DevicePlacementEnv``.
        sequence_length: Tokens of ``"bert"``, as an alternative to ``"bert-8"``.

    Raises:
        UnknownDeviceError: A device that the machine does not have.
        UnsupportedModelError: Dynamic shapes or state.
        ValueError: Another argument is out of range.
    """

    def __init__(
        self,
        model: str | Path | ov.Model = "resnet",
        devices: DevicesArgument = None,
        granularity: str = "colocated",
        graph: str = "folded",
        reward: str = "log_speedup",
        horizon: int = 1,
        split: str = "auto",
        warmup: int = 5,
        repeats: int = 10,
        cache: bool = True,
        max_nodes: int | None = None,
        max_edges: int | None = None,
        observe_graph: bool = True,
        render_mode: str | None = None,
        sequence_length: int | None = None,
    ) -> None:
        import openvino as ov

        from placement_gym.backends.measured import MeasuredBackend, Protocol
        from placement_gym.backends.measured.support import supported

        if warmup < 0 or repeats < 2:
            raise ValueError(f"warmup must be >= 0 and repeats >= 2, not {warmup} and {repeats}")
        core = ov.Core()
        specs = machine_devices(core, devices)
        register(core, specs)
        loaded = load(model, sequence_length)
        units = units_of(loaded, granularity, graph)
        problem = Problem(units, specs, supported(core, loaded, units, specs))
        protocol = Protocol(warmup=warmup, repeats=repeats)
        backend = MeasuredBackend(core, loaded, problem, split, protocol)
        super().__init__(
            CachedBackend(backend) if cache else backend,
            reward=reward,
            horizon=horizon,
            max_nodes=max_nodes,
            max_edges=max_edges,
            observe_graph=observe_graph,
            graph=graph,
            render_mode=render_mode,
        )


class SimulatedEnv(DevicePlacementEnv):
    """``DevicePlacementSim-v0``: the deterministic twin, on analytic costs.

    Args:
        model: As for ``MeasuredEnv``.
        devices: Any preset, names or specifications; this machine need not have them.
        granularity: As for ``MeasuredEnv``.
        graph: As for ``MeasuredEnv``.
        reward: See ``DevicePlacementEnv``.
        horizon: See ``DevicePlacementEnv``.
        max_nodes: See ``DevicePlacementEnv``.
        max_edges: See ``DevicePlacementEnv``.
        observe_graph: See ``DevicePlacementEnv``.
        render_mode: See ``DevicePlacementEnv``.
        sequence_length: Tokens of ``"bert"``, as an alternative to ``"bert-8"``.

    Raises:
        UnsupportedModelError: Dynamic shapes or state.
        ValueError: Another argument is out of range.
    """

    def __init__(
        self,
        model: str | Path | ov.Model = "resnet",
        devices: DevicesArgument = None,
        granularity: str = "colocated",
        graph: str = "folded",
        reward: str = "log_speedup",
        horizon: int = 1,
        max_nodes: int | None = None,
        max_edges: int | None = None,
        observe_graph: bool = True,
        render_mode: str | None = None,
        sequence_length: int | None = None,
    ) -> None:
        specs = parse_devices("cpu+dgpu" if devices is None else devices)
        units = units_of(load(model, sequence_length), granularity, graph)
        problem = Problem(units, specs, np.ones((len(units), len(specs)), dtype=np.bool_))
        costs = analytic(problem)
        super().__init__(
            SimulatedBackend(problem, costs),
            reward=reward,
            horizon=horizon,
            max_nodes=max_nodes,
            max_edges=max_edges,
            observe_graph=observe_graph,
            unit_ms=costs.unit_ms,
            graph=graph,
            render_mode=render_mode,
        )


def measured_per_unit(
    start: str = "first",
    reward: str = "improvement",
    final_reward: str = "log_speedup",
    **kwargs: Any,
) -> PerUnit:
    """``DevicePlacementPerUnit-v0``: ``PerUnit`` around ``MeasuredEnv(**kwargs)``.

    ``final_reward`` is the inner environment's reward, which ``reward="final"`` gives.
    """
    return PerUnit(MeasuredEnv(reward=final_reward, **kwargs), start=start, reward=reward)


def simulated_per_unit(
    start: str = "first",
    reward: str = "improvement",
    final_reward: str = "log_speedup",
    **kwargs: Any,
) -> PerUnit:
    """``DevicePlacementPerUnitSim-v0``: as ``measured_per_unit``, around ``SimulatedEnv``."""
    return PerUnit(SimulatedEnv(reward=final_reward, **kwargs), start=start, reward=reward)


def units_of(model: ov.Model, granularity: str, view: str) -> Units:
    """The units of a model; ``"fused"`` asks the CPU what it executes as one primitive."""
    graph: OpGraph = extract(model, view)
    if granularity != "fused":
        return group(graph, granularity)
    import openvino as ov

    from placement_gym.backends.measured.lock import measuring

    precision = {"INFERENCE_PRECISION_HINT": "f32"}
    with measuring():
        primitives = executed_primitives(ov.Core(), model, "CPU", precision)
    return group(graph, granularity, primitives)
