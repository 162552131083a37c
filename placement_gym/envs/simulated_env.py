"""The entry point of ``gym.make`` for environments that a cost table simulates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.backends.simulated.build import build_simulated_problem
from placement_gym.base.arguments import MAX_NOISE, check_not_negative, flat_keywords
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.options import EnvOptions
from placement_gym.hardware.device_requests import DevicesArgument
from placement_gym.models.spec import ModelSpec
from placement_gym.problem.costs.semantics import parse_schedule
from placement_gym.problem.decisions import PLACEMENT_ALONE

if TYPE_CHECKING:
    from placement_gym.backends.simulated.joint import JointBackend
    from placement_gym.problem.costs.table import CostTable


class SimulatedEnv(DevicePlacementEnv):
    """``DevicePlacementSim-v0``: latencies computed from a cost table.

    Spaces, rewards, episodes and info are those of ``DevicePlacementEnv``.

    ## Description
    The [simulated twin](../../docs/explanation/simulator.md) of `DevicePlacement-v0`: the machine
    need not have the devices. It also takes synthetic graphs and published workloads. Without
    `noise` it is deterministic.

    ```python
    import gymnasium as gym
    import placement_gym

    env = gym.make("DevicePlacementSim-v0", model="inception", devices="cpu+igpu")
    ```

    `gym.make_vec("DevicePlacementSim-v0", num_envs=256)` evaluates all placements of a step
    together, and `gym.make_vec("DevicePlacement-v0", 4)` measures them with one reference. Of the
    info they have `latency_ms`, `reference_ms`, `best_single_ms`, `speedup`,
    `speedup_vs_best_single`, `feasible` and `repaired`, and with `vectorization_mode="sync"` all.
    An episode that ends begins again in the same step; `final_obs` and `final_info` hold its end.

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
    each unit if `"priority"` is decided, and a bit for each of `edges` if `"fusion"` is.
    The observation gains the decisions so far.

    | key | shape | type | meaning |
    | --- | --- | --- | --- |
    | `priority` | (N,) | float32 | level of each unit / 8 |
    | `fused` | (E,) | int8 | 1 for edges that are to be fused |

    A free device starts the ready unit of the highest level; among equals, the first in
    topological order. A fused edge saves the launch of its reader, and the writing and reading
    of the tensor, where both ends share a device and the graph stays acyclic. Fused operators
    start when all of their inputs have arrived, and their outputs are available when all of them
    have finished. Fusion needs the analytic costs of a model without state.

    `gdp`, `annealing` and `hill-climb` decide all three, and `heft` uses its rank as priority.
    Other agents and solvers, `compare` and studies refuse such an environment.
    [GO's page](../../docs/results/go.md) shows what these decisions gain.

    ## References
    * Schedules follow OpenVINO's HETERO, Placeto (Addanki et al. 2019), GiPH (Hu et al. 2023),
      Baechi (Jeon et al. 2020) and Tarnawski et al. (2020); see
      `placement_gym.problem.costs.semantics`.
    * Priority and fusion follow Zhou et al. (2020), "Transferable Graph Optimizers for ML
      Compilers".

    ## Version History
    * v0: Initial version.

    Args:
        model: As for ``MeasuredEnv``; or a ``CostGraph`` of your own, or its ``.json``; or a
            published workload's ``.json``; or a synthetic graph as ``"synthetic-layered-1000"``,
            ``"synthetic-series-parallel-80000"``, ``"unrolled-lstm-50000"``,
            ``"stacked-bert-80000"`` (about that many operators); or a generated one as
            ``"family-attention-120-seed7"``, see ``graph.generated``.
        devices: Preset, names, file or specifications; None takes ``cpu+dgpu``, and the own devices
            of a workload or a ``CostGraph``, which needs costs on all that are named. Kinds are
            CPU, GPU and NPU (and ACC for a workload), with an index as in ``"GPU.1"``; any other
            name must state its ``roofline``, unless the costs are given. A workload also takes
            counts, ``"1cpu+2acc@0.3"``: two accelerators that hold 30 % of the memory each.
        granularity: As for ``MeasuredEnv``; a workload's units are its colour classes, or with
            ``"op"`` its nodes, as those of a ``CostGraph`` always are.
        graph: As for ``MeasuredEnv``.
        objective: ``"latency"``, or ``"throughput"``: the time between two results.
        costs: ``"analytic"``: shipped constants; ``"profiled"``: measured on this machine; for a
            workload ``"published"`` or ``"published-x1000"``; or a ``CostTable``, or its file.
            None takes the analytic or published ones.
        schedule: What a latency means: a key of ``problem.costs.semantics.PRESETS`` or a mapping of
            axes. None takes ``"serial"``, as HETERO runs, and ``"list"`` for graphs with costs.
        noise: Standard deviation of the logarithm of a latency; ``reset`` seeds the draws.
        shapes: As for ``MeasuredEnv``.
        inputs: As for ``MeasuredEnv``. Costs are those at their sizes; memory by lifetime counts
            tensors at the upper bounds of their dimensions.
        scenario: As for ``MeasuredEnv``. Analytic costs are sums over the scenario: the prefill's,
            and for each decoded token the mean of the first and the last one's, at their shapes;
            each inference pays for launches, weights and transfers again.
        extension: As for ``MeasuredEnv``.
        decisions: ``"placement"``, and then ``"priority"``, ``"fusion"`` or both, which exclude
            padding.
        constraints: As for ``MeasuredEnv``.
        kwargs: See ``DevicePlacementEnv``.

    Raises:
        CostMismatchError: The cost table is for another model or other devices.
        UnsupportedModelError: The model has dynamic inputs that neither ``shapes`` binds nor
            ``inputs`` have.
        ValueError: Another argument is out of range.
    """

    @flat_keywords(spec=ModelSpec, options=EnvOptions)
    def __init__(
        self,
        *,
        spec: ModelSpec,
        devices: DevicesArgument = None,
        constraints: Any = None,
        objective: str = "latency",
        costs: str | Path | CostTable | None = None,
        schedule: str | Mapping[str, Any] | None = None,
        noise: float = 0.0,
        decisions: Sequence[str] = PLACEMENT_ALONE,
        options: EnvOptions,
    ) -> None:
        check_not_negative("noise", noise, MAX_NOISE)
        twin = build_simulated_problem(spec, devices, costs, constraints)
        # The twin brings a schedule of its own where its costs are published for one.
        semantics = parse_schedule(twin.schedule if schedule is None else schedule, objective)
        self.simulated = SimulatedBackend(twin.problem, twin.costs, semantics, noise)
        self.simulated.check_times()
        super().__init__(
            self.simulated,
            options=options,
            costs=twin.costs,
            graph=spec.graph,
            decisions=decisions,
        )
        # Where actions also decide priority or fusion, the backend evaluates rows of all.
        self.exact: SimulatedBackend | JointBackend = self.simulated
        if not self.layout.alone:
            from placement_gym.backends.simulated.joint import JointBackend

            self.exact = self.backend = JointBackend(self.simulated, self.layout)

    def begin(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """As ``DevicePlacementEnv.begin``; a seed also seeds the noise."""
        if seed is not None:
            self.simulated.rng = np.random.default_rng(seed)
        super().begin(seed, options)
