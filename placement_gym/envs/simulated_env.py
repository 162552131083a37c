"""``DevicePlacementSim-v0``, whose latencies are computed from a cost table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.backends.simulated import SimulatedBackend, build_simulated_problem
from placement_gym.base import MAX_NOISE, check_not_negative, suggest_keywords
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.episode import check_options
from placement_gym.hardware import DevicesArgument
from placement_gym.models import InputsArgument, ModelArgument, ModelSpec, Shapes
from placement_gym.problem import PLACEMENT_ALONE
from placement_gym.problem.costs import parse_schedule

if TYPE_CHECKING:
    from placement_gym.backends.simulated import JointBackend
    from placement_gym.problem.costs import CostTable


class SimulatedEnv(DevicePlacementEnv):
    """``DevicePlacementSim-v0``: latencies are computed from a cost table.

    Spaces, rewards, episodes and info are those of ``DevicePlacementEnv``.

    ## Description
    The interface of [DevicePlacement-v0](env.py), simulated: a step takes microseconds, and the
    machine need not have the devices. The environment also takes generated graphs, published
    workloads and [your own graphs](../../docs/how_to/own_problem.md#your-own-graph). It is
    deterministic unless `noise` is set. More about [costs, schedules, generated graphs and the
    proven optimum](../../docs/explanation/latency.md#simulated).

    ```python
    import gymnasium as gym
    import placement_gym

    env = gym.make("DevicePlacementSim-v0", model="inception", devices="cpu+igpu")
    ```

    `gym.make_vec("DevicePlacementSim-v0", num_envs=256)` evaluates all placements of a step
    together. Episodes are reset in the step that ends them (`AutoresetMode.SAME_STEP`).

    ## Action Space
    `MultiDiscrete([n_devices] * N)`. See [DevicePlacement-v0](env.py#action-space).

    ## Observation Space
    `Dict` of padded arrays. See [DevicePlacement-v0](env.py#observation-space).

    ## Rewards
    Those of [DevicePlacement-v0](env.py#rewards).

    ## Starting State
    All units are on the reference device, unless [`reset`](env.py#starting-state) gets a placement.

    ## Episode End
    The episode terminates after `horizon` placements, one by default.

    ## Information
    The keys of [DevicePlacement-v0](env.py#information).

    ## Priority and Fusion
    With `schedule="event"` an action can decide more than the placement:

    ```python
    env = gym.make(
        "DevicePlacementSim-v0",
        model="inception",
        devices="cpu+2dgpu",
        schedule="event",
        decisions=("placement", "priority", "fusion"),
    )
    ```

    An action is then a device for each unit, with `"priority"` also a level from 0 to 7 for each
    unit, and with `"fusion"` a bit for each edge. Observations gain these keys:

    | key | shape | meaning |
    | --- | --- | --- |
    | `priority` | (N,) | level of each unit / 8 |
    | `fused` | (E,) | 1 for edges that are to be fused (int8) |

    A free device starts the ready unit of the highest level. If both ends of a fused edge share a
    device and the graph stays acyclic, the launch of the operator that reads the tensor is saved,
    and the time to write and read it. Fused operators start when all their inputs have arrived and
    finish together. Fusion needs the analytic costs of a stateless model.

    `gdp`, `annealing` and `hill-climb` decide all three; `heft` uses its rank as priority. Other
    agents, `compare` and studies do not accept such an environment.

    ## References
    * HSDAG (Duan et al. 2024), whose problem this is.
    * Schedules follow OpenVINO's HETERO, Placeto (Addanki et al. 2019), GiPH (Hu et al. 2023),
      Baechi (Jeon et al. 2020) and Tarnawski et al. (2020).
    * Priority and fusion follow Zhou et al. (2020), "Transferable Graph Optimizers for ML
      Compilers".

    ## Version History
    * v0: Initial version.

    Args:
        model: As for ``MeasuredEnv``; or a ``CostGraph``, or its ``.json``; or a published
            workload's ``.json``; or a generated graph, such as ``"synthetic-layered-1000"`` or
            ``"family-attention-120-seed7"``.
        devices: Preset, names, file or specifications. None takes ``cpu+dgpu``, or the devices
            of a workload or ``CostGraph``. A name other than CPU, GPU, NPU or ``"GPU.1"`` needs a
            ``roofline`` or given costs. A workload also takes counts, as in ``"1cpu+2acc@0.3"``.
        granularity: As for ``MeasuredEnv``. Units of a workload are its colour classes, or its
            nodes with ``"op"``; units of a ``CostGraph`` are its nodes.
        objective: ``"latency"``, or ``"throughput"``: the time between two results.
        costs: ``"analytic"``: constants of this package; ``"profiled"``: measured on this machine;
            for a workload ``"published"`` or ``"published-x1000"``; or a ``CostTable``, or its
            file. None takes the analytic or published ones.
        schedule: How latencies are computed: a key of ``problem.costs.semantics.PRESETS`` or a
            mapping of properties. None takes ``"serial"``, as HETERO runs, and ``"list"`` for
            graphs with costs.
        noise: Standard deviation of the logarithm of a latency; ``reset`` seeds the draws.
        inputs: As for ``MeasuredEnv``; costs are for their sizes.
        scenario: As for ``MeasuredEnv``. Analytic costs give every decoded token the mean of the
            first and the last one's.
        decisions: ``"placement"``, and optionally ``"priority"``, ``"fusion"`` or both, which
            cannot be combined with padding.
        kwargs: As for ``MeasuredEnv``.

    Raises:
        CostMismatchError: The cost table is for another model or other devices.
        UnsupportedModelError: The model has dynamic inputs whose sizes neither ``shapes`` nor
            ``inputs`` give.
        ValueError: Another argument is out of range.
    """

    @suggest_keywords
    def __init__(
        self,
        *,
        model: ModelArgument = "resnet",
        devices: DevicesArgument = None,
        granularity: str = "colocated",
        graph: str = "folded",
        shapes: Shapes | None = None,
        inputs: InputsArgument | None = None,
        scenario: str | None = None,
        extension: str | Path | None = None,
        constraints: Any = None,
        costs: str | Path | CostTable | None = None,
        objective: str = "latency",
        schedule: str | Mapping[str, Any] | None = None,
        noise: float = 0.0,
        decisions: Sequence[str] = PLACEMENT_ALONE,
        reward: str = "log_speedup",
        horizon: int = 1,
        repair: bool = False,
        max_nodes: int | None = None,
        max_edges: int | None = None,
        max_devices: int | None = None,
        observe_graph: bool = True,
        observe_devices: bool = False,
        render_mode: str | None = None,
    ) -> None:
        # Arguments are checked before a model is loaded, which takes seconds.
        check_options(reward, horizon, repair, render_mode)
        check_not_negative("noise", noise, MAX_NOISE)
        spec = ModelSpec(model, granularity, graph, shapes, inputs, scenario, extension)
        twin = build_simulated_problem(spec, devices, costs, constraints)
        # Published costs come with a schedule.
        semantics = parse_schedule(twin.schedule if schedule is None else schedule, objective)
        self.simulated = SimulatedBackend(twin.problem, twin.costs, semantics, noise)
        self.simulated.check_times()
        super().__init__(
            self.simulated,
            reward=reward,
            horizon=horizon,
            repair=repair,
            max_nodes=max_nodes,
            max_edges=max_edges,
            max_devices=max_devices,
            observe_graph=observe_graph,
            observe_devices=observe_devices,
            costs=twin.costs,
            graph=graph,
            decisions=decisions,
            render_mode=render_mode,
        )
        # If actions also decide priority or fusion, the backend evaluates rows of all decisions.
        self.exact: SimulatedBackend | JointBackend = self.simulated
        if not self.layout.alone:
            from placement_gym.backends.simulated import JointBackend

            self.exact = self.backend = JointBackend(self.simulated, self.layout)

    def begin(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode without observing it; a seed also seeds the noise."""
        if seed is not None:
            self.simulated.rng = np.random.default_rng(seed)
        super().begin(seed, options)
