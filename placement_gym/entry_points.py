"""What ``gym.make`` calls: environments from JSON-able arguments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.devices import DevicesArgument
from placement_gym.env import DevicePlacementEnv
from placement_gym.errors import UserError
from placement_gym.observation import Observation
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
        from placement_gym.backends.cached import CachedBackend
        from placement_gym.backends.measured.build import build_measured_backend
        from placement_gym.backends.measured.timing_protocol import TimingProtocol

        if warmup < 0 or repeats < 2:
            raise UserError(f"warmup must be >= 0 and repeats >= 2, not {warmup} and {repeats}")
        protocol = TimingProtocol(warmup=warmup, repeats=repeats)
        backend = build_measured_backend(
            model, devices, granularity, graph, split, protocol, sequence_length
        )
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
    """``DevicePlacementSim-v0``: the twin, on a cost table; deterministic unless ``noise`` is set.

    Args:
        model: As for ``MeasuredEnv``; or a published workload's ``.json``; or a synthetic graph
            as ``"synthetic-layered-1000"``, ``"synthetic-series-parallel-80000"``,
            ``"unrolled-lstm-50000"``, ``"stacked-bert-80000"`` (about that many operators).
        devices: Any preset, names or specifications, which this machine need not have; None
            takes ``cpu+dgpu``, and for a workload the published ones. A workload also takes
            counts, ``"1cpu+2acc@0.3"``: two accelerators that hold 30 % of the memory each.
        granularity: As for ``MeasuredEnv``; a workload's units are its colour classes, or with
            ``"op"`` its nodes.
        graph: As for ``MeasuredEnv``.
        objective: ``"latency"``, or ``"throughput"``: the time between two results of a pipeline.
        reward: See ``DevicePlacementEnv``.
        horizon: See ``DevicePlacementEnv``.
        costs: ``"analytic"``: shipped constants; ``"profiled"``: measured on this machine; for a
            workload ``"published"`` or ``"published-x1000"``; or the file of a ``CostTable``.
            None takes the analytic or published ones.
        schedule: What a latency means: a key of ``backends.simulated.semantics.PRESETS`` or a
            mapping of axes. None takes ``"serial"``, as HETERO runs, and ``"list"`` for workloads.
        noise: Standard deviation of the logarithm of a latency, drawn from the seed of ``reset``.
        max_nodes: See ``DevicePlacementEnv``.
        max_edges: See ``DevicePlacementEnv``.
        observe_graph: See ``DevicePlacementEnv``.
        render_mode: See ``DevicePlacementEnv``.
        sequence_length: Tokens of ``"bert"``, as an alternative to ``"bert-8"``.

    Raises:
        CostMismatchError: A cost table for another model or other devices.
        UnsupportedModelError: Dynamic shapes or state.
        ValueError: Another argument is out of range.
    """

    def __init__(
        self,
        model: str | Path | ov.Model = "resnet",
        devices: DevicesArgument = None,
        granularity: str = "colocated",
        graph: str = "folded",
        objective: str = "latency",
        reward: str = "log_speedup",
        horizon: int = 1,
        costs: str | Path | None = None,
        schedule: str | Mapping[str, Any] | None = None,
        noise: float = 0.0,
        max_nodes: int | None = None,
        max_edges: int | None = None,
        observe_graph: bool = True,
        render_mode: str | None = None,
        sequence_length: int | None = None,
    ) -> None:
        from placement_gym.backends.simulated.backend import SimulatedBackend
        from placement_gym.backends.simulated.build import build_simulated_problem
        from placement_gym.costs.semantics import parse_schedule

        twin = build_simulated_problem(model, devices, granularity, graph, costs, sequence_length)
        semantics = parse_schedule(twin.schedule if schedule is None else schedule, objective)
        self.simulated = SimulatedBackend(twin.problem, twin.costs, semantics, noise)
        super().__init__(
            self.simulated,
            reward=reward,
            horizon=horizon,
            max_nodes=max_nodes,
            max_edges=max_edges,
            observe_graph=observe_graph,
            unit_ms=twin.costs.unit_ms(twin.problem.units),
            graph=graph,
            render_mode=render_mode,
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """As ``DevicePlacementEnv.reset``; a seed also starts the noise anew."""
        if seed is not None:
            self.simulated.rng = np.random.default_rng(seed)
        return super().reset(seed=seed, options=options)


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
