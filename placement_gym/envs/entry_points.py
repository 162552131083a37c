"""What ``gym.make`` calls: environments from JSON-able arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.base.arguments import (
    MAX_NOISE,
    check_flag,
    check_integer,
    check_not_negative,
    check_objective,
    check_positive,
    check_requests,
)
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.observation import Observation
from placement_gym.envs.wrappers import PerUnit
from placement_gym.hardware.device_requests import DevicesArgument, resolve_devices
from placement_gym.models.shapes import Shapes
from placement_gym.models.spec import ModelSpec
from placement_gym.problem.decisions import PLACEMENT_ALONE, Layout

if TYPE_CHECKING:
    import openvino as ov

    from placement_gym.backends.simulated.backend import SimulatedBackend
    from placement_gym.backends.simulated.joint import JointBackend


class MeasuredEnv(DevicePlacementEnv):
    """``DevicePlacement-v0``: every placement is compiled and timed by OpenVINO.

    ## Description
    Placements run on the devices of this machine, interleaved with the reference device so that
    slow drift cancels; see [measurement](../docs/explanation/measurement.md). Spaces, rewards and
    episodes are those of [all environments](env.py).

    ```python
    import gymnasium as gym
    import placement_gym

    env = gym.make("DevicePlacement-v0", model="resnet", devices="cpu-testbed")
    ```

    ## References
    * OpenVINO's [heterogeneous execution](https://docs.openvino.ai).
    * HSDAG (Duan et al. 2024), whose problem this is.

    Args:
        model: Built-in name, path of a file that OpenVINO reads, or ``ov.Model``.
        devices: Preset, names, file or specifications; None takes the machine's devices, or the
            preset ``cpu-testbed`` on a machine with a single one.
        granularity: What a unit is: ``"op"``, ``"colocated"`` or ``"fused"``.
        graph: ``"folded"`` or ``"raw"``.
        reward: See ``DevicePlacementEnv``.
        horizon: See ``DevicePlacementEnv``.
        split: ``"alias"``, ``"hetero"`` or ``"auto"``, see ``placement_gym.compile_model``.
        warmup: Inferences before the first counted one.
        repeats: Counted inferences of the candidate and of the reference, each; with objective
            ``"throughput"`` windows of eight or more results.
        cache: Answer a repeated placement from memory. Finalists are measured again.
        isolate: Run OpenVINO in a process of its own, which starts with the first measurement: a
            placement that crashes it or hangs is tried once more and then is infeasible, and the
            run goes on. False measures in this process.
        timeout_s: Seconds that one step of that process, such as a compilation or an inference,
            may take before it counts as hung.
        max_nodes: See ``DevicePlacementEnv``.
        max_edges: See ``DevicePlacementEnv``.
        observe_graph: See ``DevicePlacementEnv``.
        repair: See ``DevicePlacementEnv``.
        render_mode: See ``DevicePlacementEnv``.
        max_devices: See ``DevicePlacementEnv``.
        observe_devices: See ``DevicePlacementEnv``.
        shapes: Sizes of the dynamic dimensions of inputs, as in ``{"input_ids": [1, 64]}``; -1 or
            ``"?"`` leaves one dynamic, ``"1..128"`` gives it bounds.
        scenario: What one run of a model with state is: ``"chat-128-32"`` gives it a prompt of 128
            tokens on an empty state and then decodes 32 tokens one by one. None is ``"chat"``, 64
            and 16 tokens. Latencies are those of the whole scenario, info has ``prefill_ms`` and
            ``token_ms`` beside them, outputs are compared at every step, and the memory of a
            device includes its part of the state at the end. Dimensions that ``shapes`` does not
            bind are a batch of one, if they are an input's first, else the tokens: the new ones,
            or all of them where the input's name has ``mask`` in it.
        data_shapes: Sizes of the inputs that are measured, as in ``{"input_ids": [1, 64]}``, of a
            model without state that leaves dimensions dynamic: it is compiled with them, and so
            is every submodel. A dimension that has an upper bound needs none and is measured at
            it.
        objective: ``"latency"``; or ``"throughput"``: a placement runs as ``Pipeline`` does, a
            device alone with the number of streams and requests that suits it best, and latencies
            are the milliseconds between two results. Info has ``requests_per_s``, ``requests`` in
            flight and ``streams``. Of a model with state a request is the whole scenario.
        requests: With objective ``"throughput"``, requests in flight of a placement on several
            devices; None is one more than it has stages.
        tolerance: Largest relative error of a placement's outputs, beyond which it is infeasible.
            None is 1e-4 where all devices compute in f32, else 3e-2. Of a quantised model it is
            three times what rounding, or integers that overflow, were measured to cost it, but at
            most 0.1, and 3e-2 where that cannot be measured: with state, or without an input of
            real numbers.

    Raises:
        UnknownDeviceError: The machine does not have a device.
        UnsupportedModelError: The model has dynamic shapes that neither ``shapes`` binds nor
            ``data_shapes`` states.
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
        isolate: bool = True,
        timeout_s: float = 120.0,
        max_nodes: int | None = None,
        max_edges: int | None = None,
        observe_graph: bool = True,
        repair: bool = False,
        render_mode: str | None = None,
        max_devices: int | None = None,
        observe_devices: bool = False,
        shapes: Shapes | None = None,
        scenario: str | None = None,
        objective: str = "latency",
        requests: int | None = None,
        data_shapes: Shapes | None = None,
        tolerance: float | None = None,
    ) -> None:
        from placement_gym.backends.cached import CachedBackend
        from placement_gym.backends.measured.build import build_measured_backend
        from placement_gym.backends.measured.timing_protocol import TimingProtocol

        check_integer("warmup", warmup, 0)
        check_integer("repeats", repeats, 2)
        check_flag("cache", cache)
        check_flag("isolate", isolate)
        check_positive("timeout_s", timeout_s)
        check_objective(objective)
        if requests is not None:
            check_requests(objective, requests)
        protocol = TimingProtocol(
            warmup=warmup, repeats=repeats, objective=objective, requests=requests
        )
        backend = build_measured_backend(
            ModelSpec(model, granularity, graph, shapes, data_shapes, scenario),
            resolve_devices(devices, "measured"),
            split,
            protocol,
            isolate,
            timeout_s,
            tolerance,
        )
        super().__init__(
            CachedBackend(backend) if cache else backend,
            reward=reward,
            horizon=horizon,
            max_nodes=max_nodes,
            max_edges=max_edges,
            observe_graph=observe_graph,
            graph=graph,
            repair=repair,
            render_mode=render_mode,
            max_devices=max_devices,
            observe_devices=observe_devices,
        )


class SimulatedEnv(DevicePlacementEnv):
    """``DevicePlacementSim-v0``: latencies computed from a cost table.

    ## Description
    The [simulated twin](../docs/explanation/simulator.md) of `DevicePlacement-v0`. Spaces,
    rewards, episodes and info are those of [all environments](env.py), and the machine need not
    have the devices. It also takes synthetic graphs and published workloads. Without `noise` it
    is deterministic.

    ```python
    import gymnasium as gym
    import placement_gym

    env = gym.make("DevicePlacementSim-v0", model="inception", devices="cpu+igpu")
    ```

    `gym.make_vec("DevicePlacementSim-v0", num_envs=256)` evaluates all placements of a step
    together.

    ## Priority and Fusion
    With `schedule="event"` an action can decide more than the placement.

    ```python
    env = gym.make(
        "DevicePlacementSim-v0",
        model="inception",
        devices="cpu+2dgpu",
        schedule="event",
        decisions=("placement", "priority", "fusion"),
    )
    ```

    The action space is then a `MultiDiscrete` of a device for each unit, a level from 0 to 7 for
    each unit if `"priority"` is decided, and a bit for each edge of `edge_index` if `"fusion"` is.
    The observation gains the decisions so far.

    | key | shape | type | meaning |
    | --- | --- | --- | --- |
    | `priority` | (N,) | int64 | level of each unit |
    | `fused` | (E,) | int8 | 1 for edges that are to be fused |

    A free device starts the ready unit of the highest level; among equals, the first in
    topological order. A fused edge saves the launch of its reader, and the writing and reading
    of the tensor, where both ends share a device and the graph stays acyclic. Fused operators
    start when all of their inputs have arrived, and their outputs are available when all of them
    have finished. Fusion needs the analytic costs of a model without state.

    `gdp`, `annealing` and `hill-climb` decide all three, and `heft` uses its rank as priority.
    Other agents and solvers, `compare` and studies refuse such an environment.
    [GO's page](../docs/results/go.md) shows what the further decisions are worth.

    ## References
    * Schedules follow OpenVINO's HETERO, Placeto (Addanki et al. 2019), GiPH (Hu et al. 2023),
      Baechi (Jeon et al. 2020) and Tarnawski et al. (2020); see `placement_gym.problem.costs.semantics`.
    * Priority and fusion follow Zhou et al. (2020), "Transferable Graph Optimizers for ML
      Compilers".

    ## Version History
    * v0: Initial version.

    Args:
        model: As for ``MeasuredEnv``; or a published workload's ``.json``; or a synthetic graph
            as ``"synthetic-layered-1000"``, ``"synthetic-series-parallel-80000"``,
            ``"unrolled-lstm-50000"``, ``"stacked-bert-80000"`` (about that many operators); or a
            generated one as ``"family-attention-120-seed7"``, see ``graph.families.names``.
        devices: Preset, names, file or specifications; None takes ``cpu+dgpu``, and for a
            workload the published devices. Kinds are CPU, GPU and NPU (and ACC for a workload),
            with an index as in ``"GPU.1"``; any other name must state its ``roofline``, unless
            ``costs`` is a file. A workload also takes counts, ``"1cpu+2acc@0.3"``: two
            accelerators that hold 30 % of the memory each.
        granularity: As for ``MeasuredEnv``; a workload's units are its colour classes, or with
            ``"op"`` its nodes.
        graph: As for ``MeasuredEnv``.
        objective: ``"latency"``, or ``"throughput"``: the time between two results of a pipeline.
        reward: See ``DevicePlacementEnv``.
        horizon: See ``DevicePlacementEnv``.
        costs: ``"analytic"``: shipped constants; ``"profiled"``: measured on this machine; for a
            workload ``"published"`` or ``"published-x1000"``; or the file of a ``CostTable``.
            None takes the analytic or published ones.
        schedule: What a latency means: a key of ``costs.semantics.PRESETS`` or a mapping of
            axes. None takes ``"serial"``, as HETERO runs, and ``"list"`` for workloads.
        noise: Standard deviation of the logarithm of a latency; ``reset`` seeds the draws.
        max_nodes: See ``DevicePlacementEnv``.
        max_edges: See ``DevicePlacementEnv``.
        observe_graph: See ``DevicePlacementEnv``.
        repair: See ``DevicePlacementEnv``.
        render_mode: See ``DevicePlacementEnv``.
        max_devices: See ``DevicePlacementEnv``.
        observe_devices: See ``DevicePlacementEnv``.
        shapes: As for ``MeasuredEnv``.
        data_shapes: As for ``MeasuredEnv``. Costs are those at these sizes; memory by lifetime
            counts tensors at the upper bounds of their dimensions.
        scenario: As for ``MeasuredEnv``. Analytic costs are sums over the scenario: the prefill's,
            and for each decoded token the mean of the first and the last one's, at their shapes;
            each inference pays for launches, weights and transfers anew.
        decisions: ``"placement"``, and then ``"priority"``, ``"fusion"`` or both, which exclude
            padding.

    Raises:
        CostMismatchError: The cost table is for another model or other devices.
        UnsupportedModelError: The model has dynamic shapes that neither ``shapes`` binds nor
            ``data_shapes`` states.
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
        repair: bool = False,
        render_mode: str | None = None,
        max_devices: int | None = None,
        observe_devices: bool = False,
        shapes: Shapes | None = None,
        scenario: str | None = None,
        data_shapes: Shapes | None = None,
        decisions: Sequence[str] = PLACEMENT_ALONE,
    ) -> None:
        from placement_gym.backends.simulated.backend import SimulatedBackend
        from placement_gym.backends.simulated.build import build_simulated_problem
        from placement_gym.problem.costs.semantics import parse_schedule

        check_not_negative("noise", noise, MAX_NOISE)
        twin = build_simulated_problem(
            ModelSpec(model, granularity, graph, shapes, data_shapes, scenario), devices, costs
        )
        semantics = parse_schedule(twin.schedule if schedule is None else schedule, objective)
        self.simulated = SimulatedBackend(twin.problem, twin.costs, semantics, noise)
        self.simulated.check_reference()
        self.exact = self.evaluate_decisions(decisions)
        super().__init__(
            self.exact,
            reward=reward,
            horizon=horizon,
            max_nodes=max_nodes,
            max_edges=max_edges,
            observe_graph=observe_graph,
            unit_ms=twin.costs.unit_ms(twin.problem.units),
            graph=graph,
            repair=repair,
            render_mode=render_mode,
            max_devices=max_devices,
            observe_devices=observe_devices,
            decisions=decisions,
        )

    def evaluate_decisions(self, decisions: Sequence[str]) -> SimulatedBackend | JointBackend:
        """The backend that evaluates rows of these decisions."""
        layout = Layout.of(decisions, self.simulated.problem)
        if layout.alone:
            return self.simulated
        from placement_gym.backends.simulated.joint import JointBackend

        return JointBackend(self.simulated, layout)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """As ``DevicePlacementEnv.reset``; a seed also seeds the noise."""
        if seed is not None:
            self.simulated.rng = np.random.default_rng(seed)
        return super().reset(seed=seed, options=options)


def measured_per_unit(
    start: str = "first",
    reward: str = "improvement",
    final_reward: str = "log_speedup",
    **kwargs: Any,
) -> PerUnit:
    """``DevicePlacementPerUnit-v0``: places one unit per step, measured with OpenVINO.

    Args:
        start: See ``PerUnit``.
        reward: See ``PerUnit``.
        final_reward: The reward of all environments that ``reward="final"`` pays.
        kwargs: As for ``MeasuredEnv``.
    """
    return PerUnit(MeasuredEnv(reward=final_reward, **kwargs), start=start, reward=reward)


def simulated_per_unit(
    start: str = "first",
    reward: str = "improvement",
    final_reward: str = "log_speedup",
    **kwargs: Any,
) -> PerUnit:
    """``DevicePlacementPerUnitSim-v0``: places one unit per step, simulated.

    Args:
        start: See ``PerUnit``.
        reward: See ``PerUnit``.
        final_reward: The reward of all environments that ``reward="final"`` pays.
        kwargs: As for ``SimulatedEnv``.
    """
    return PerUnit(SimulatedEnv(reward=final_reward, **kwargs), start=start, reward=reward)
