"""The environment: an action places every unit, a backend evaluates the placement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from placement_gym.backends import Backend, Batch, Measurement, SingleDeviceResults
from placement_gym.base import BoolArray, IntArray, UInt8, suggest_keywords
from placement_gym.envs import rewards
from placement_gym.envs.episode import (
    RENDER_MODES,
    check_options,
    find_start,
    parse_start,
    warn_finished,
)
from placement_gym.envs.info import make_info
from placement_gym.envs.observation import Observation, Observer
from placement_gym.problem import LEVELS, PLACEMENT_ALONE, ActionLayout, Problem
from placement_gym.workloads import find_objective

if TYPE_CHECKING:
    from placement_gym.envs.render import Renderer
    from placement_gym.problem import Placement
    from placement_gym.problem.costs import CostTable
    from placement_gym.solvers import RepairPrices


class DevicePlacementEnv(gym.Env[Observation, IntArray]):
    """Place the units of a neural network on devices.

    ## Description
    A model is a graph of operators, grouped into units. An action assigns every unit to a device.
    Units run faster on some devices than on others, and every tensor that moves between devices
    costs a transfer. The goal is the lowest latency of one inference.

    `granularity` defines a unit: `"op"` is a single operator, `"colocated"` (the default) joins an
    operator to the only one it reads if nothing else reads that one, and `"fused"` is what the CPU
    executes as one primitive.
    Constants, conversions and shape computations belong to the operators that read them, unless
    `graph="raw"`.

    | id | use it to |
    | --- | --- |
    | `DevicePlacement-v0` | measure placements on this machine |
    | [`DevicePlacementSim-v0`](simulated_env.py) | simulate them; start here |
    | [`DevicePlacementPerUnitSim-v0`](per_unit.py) | place one unit per step |
    | [`DevicePlacementStream-v0`](stream.py) | learn to place graphs never seen before |
    | [`DevicePlacementOnline-v0`](online/env.py) | choose plans for requests under load |

    ## Action Space
    `MultiDiscrete([n_devices] * N)`: a device for each of N units, in topological order.
    `info["devices"]` names the devices. `env.unwrapped.action_masks()` is False for devices that
    cannot run a unit; MaskablePPO reads it.

    `max_nodes` and `max_devices` pad the space. Actions of padded units are ignored. Padded
    devices are masked; choosing one means the reference device.

    ## Observation Space
    `Dict` of padded arrays. N, E and D are the numbers of units, edges and devices, or `max_nodes`,
    `max_edges` and `max_devices`.

    | key | shape | meaning |
    | --- | --- | --- |
    | `node_mask` | (N,) | 1 for a unit, 0 for padding |
    | `placement` | (N,) | device of each unit / D |
    | `step` | (1,) | placements so far / `horizon` |
    | `graph_id` | (1,) | number of this graph, its costs and its devices / 2^24 |
    | `x` | (N, F) | features; `observation.FEATURES` names the blocks |
    | `edges` | (2, E) | producer and consumer of each edge / N |
    | `edge_mask` | (E,) | 1 for an edge, 0 for padding |

    Masks are int8, all else is float32. `placement_gym.edge_index` returns edges as indices, and
    `env.observation_space[key].read(values)` does so for other keys. `observe_graph=False` leaves
    out `x`, `edges` and `edge_mask`. `observe_devices=True` adds
    [device features](#device-features).

    ## Rewards

    | `reward` | value |
    | --- | --- |
    | `"log_speedup"` | log(reference latency / latency), the default |
    | `"speedup"` | reference latency / latency |
    | `"inverse_latency"` | inferences per second (HSDAG) |
    | `"neg_sqrt_latency"` | -sqrt(latency in seconds) (Mirhoseini et al. 2017) |
    | `"improvement"` | latency saved by this step / reference latency (Placeto) |

    [A wrapper](../../docs/how_to/own_problem.md#another-reward) can compute any other reward.

    A placement that does not fit or does not run is infeasible: `info["latency_ms"]` is ten times
    the reference latency, and the reward is that of 10 (1 + 9 s) times the reference latency, where
    s is the fraction of the placement's bytes that exceed the memory limits. With `repair=True` the
    nearest placement that fits is evaluated instead.

    ## Starting State
    All units are on the reference device, the first device that can run the whole model.

    `reset(options={"placement": ...})` starts an episode from another placement: a `Placement`, a
    dictionary from unit to device name, or device indices (with `gym.make_vec` also one row for
    each environment).

    ## Episode End
    The episode terminates after `horizon` placements, one by default.

    ## Information
    `reset` and `step` return the same keys.

    | key | meaning |
    | --- | --- |
    | `latency_ms`, `latency_p90_ms` | median and 90th percentile of the latency |
    | `reference_ms` | latency of the reference device |
    | `best_single_ms`, `best_single_unlimited_ms` | fastest device, with and without limits |
    | `speedup`, `speedup_vs_best_single` | over the reference and the best single device |
    | `noise` | half-width of the speed-up's 95 % interval, as a fraction |
    | `warning` | why the measurement is too unreliable to compare, or `""` |
    | `interference` | fraction of the time that other programs took; 0 if negligible |
    | `n_submodels`, `n_submodels_expected` | submodels made, and submodels needed |
    | `n_transfers`, `transfer_bytes` | transfers between devices, and their bytes |
    | `memory_bytes`, `excess_bytes` | bytes on each device; bytes beyond the limits |
    | `compile_s`, `measure_s` | seconds to compile, and to warm up, check and time |
    | `cached` | True if an earlier measurement was used |
    | `feasible`, `error` | True if the placement fits and runs, else why not |
    | `repaired` | True if the placement was changed so that it fits |
    | `placement_hash` | identifies the placement |
    | `devices` | names of the devices, in the order of action values |
    | `testbed` | True if two devices are one physical device |

    If no device holds the model, `best_single_ms` is ten times `reference_ms`.

    `gym.make_vec` returns `latency_ms`, `reference_ms`, `best_single_ms`, `speedup`,
    `speedup_vs_best_single`, `feasible` and `repaired`; with `vectorization_mode="sync"`, all keys.

    ## Device Features
    `observe_devices=True` adds these keys, or with `observe_graph=False` only `room`. Times are
    log(1 + t / s), where s is the mean time of a unit on a device; they are zero where no
    costs are known. Bytes are fractions of the model's bytes.

    | key | shape | meaning |
    | --- | --- | --- |
    | `device_mask` | (D,) | 1 for a device, 0 for padding |
    | `memory_pool` | (D,) | number (from 1) of its shared memory pool / D; 0 if not shared |
    | `devices` | (D, 5) | see below |
    | `links` | (D, D, 2) | time of a transfer, and extra time for a mean tensor |
    | `unit_times` | (N, D) | time of each unit on each device |
    | `unit_bytes` | (N,) | bytes that each unit holds |
    | `supported` | (N, D) | 1 if the device runs the unit (int8) |
    | `edge_attr` | (E, 3) | transfer time; log(1 + n) of tensors, and of size in mean tensors |
    | `scale` | (1,) | log10(s in ms) / 8 |
    | `room` | (D,) | free memory under the placement, negative beyond a limit |

    The columns of `devices`: the bytes that fit, 1 if they are limited, 1 for the host, the mean
    time of a unit, and the cost of a submodel.

    ## References
    * HSDAG (Duan et al. 2024), whose problem this is.
    * Placeto (Addanki et al. 2019); the hierarchical placer (Mirhoseini et al. 2017, 2018).

    ## Version History
    * v0: Initial version.

    Args:
        backend: Evaluates placements of its problem.
        reward: A name of the table "Rewards".
        horizon: Placements per episode.
        max_nodes: Number of units to pad to, for transfer between models.
        max_edges: Number of edges to pad to.
        observe_graph: Include the graph in observations.
        costs: Times for the feature block ``cost``, the device features and repairs. None leaves
            the block at zero; the others then use costs that need no measurement.
        max_devices: Number of devices to pad to, for transfer between sets of devices.
        observe_devices: Include limits, free memory, times and links in observations.
        graph: View of the problem's operators, kept in saved placements.
        repair: Change placements so that they fit, see ``solvers.repair``, and observe these.
        render_mode: None, ``"ansi"``, ``"human"`` or ``"rgb_array"``.
        decisions: What an action decides; see ``placement_gym.problem.decisions``.

    Raises:
        ValueError: An argument is out of range; the message says what is possible.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 1}  # noqa: RUF012  as gym.Env has it

    @suggest_keywords
    def __init__(
        self,
        backend: Backend,
        *,
        reward: str = "log_speedup",
        horizon: int = 1,
        repair: bool = False,
        max_nodes: int | None = None,
        max_edges: int | None = None,
        max_devices: int | None = None,
        observe_graph: bool = True,
        observe_devices: bool = False,
        costs: CostTable | None = None,
        graph: str = "folded",
        decisions: Sequence[str] = PLACEMENT_ALONE,
        render_mode: str | None = None,
    ) -> None:
        check_options(reward, horizon, repair, render_mode)
        find_objective(backend.objective).check_rates(backend.problem.units.graph.models)
        self.backend = backend
        self.problem: Problem = backend.problem
        self.reward = rewards.get_reward(reward)
        self.horizon = int(horizon)  # which may be 1e3
        self.graph = graph
        self.repair = repair
        # For the benchmark: which placements were repaired, and an agent's starts by bytes.
        self.on_repair: Callable[[BoolArray], object] | None = None
        self.starts: dict[bytes, str] = {}
        self.render_mode = render_mode
        self.costs = costs
        self.observer = Observer(
            self.problem,
            self.horizon,
            max_nodes=max_nodes,
            max_edges=max_edges,
            max_devices=max_devices,
            observe_graph=observe_graph,
            observe_devices=observe_devices,
            unit_ms=None if costs is None else costs.unit_ms(self.problem.units),
            costs=self.known_costs if observe_devices else None,
            decisions=decisions,
        )
        self.observation_space: spaces.Space[Any] = self.observer.space()
        self.action_space = spaces.MultiDiscrete(self.layout.choices_of_each)
        self.row = self.reference_row()
        self.steps = 0
        self.measurement: Measurement | None = None

    @property
    def layout(self) -> ActionLayout:
        """The order of decisions in an action."""
        return self.observer.layout

    @property
    def decisions(self) -> tuple[str, ...]:
        """Names of the decisions in an action; see ``placement_gym.problem.decisions``."""
        return self.layout.names

    @property
    def assignment(self) -> IntArray:
        """(n_units,) devices of the current placement."""
        return self.row[: self.problem.n_units]

    def reference_row(self) -> IntArray:
        """The row with all units on the reference device and other decisions at 0."""
        assignment = self.problem.single(self.problem.reference_device)
        return self.layout.complete(assignment[None])[0]

    @cached_property
    def singles(self) -> SingleDeviceResults:
        """Measurements of each device alone, made when first needed."""
        return SingleDeviceResults.from_backend(self.backend)

    @property
    def reference(self) -> Measurement:
        """The measurement of the reference device alone."""
        return self.singles.of_device(self.problem.reference_device)

    @property
    def objective(self) -> str:
        """Meaning of latencies: ``"latency"`` of one request, or ``"throughput"``."""
        return self.backend.objective

    @property
    def known_costs(self) -> CostTable | None:
        """Costs for observations and repairs: ``costs``, or those that need no measurement."""
        return self.backend.rough_costs if self.costs is None else self.costs

    @property
    def last_measurement(self) -> Measurement:
        """The last measurement; after a reset, that of the reference device."""
        return self.reference if self.measurement is None else self.measurement

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode, with ``options={"placement": ...}`` from a given placement.

        Raises:
            UserError: There is no such option, or the placement is of another problem.
        """
        self.begin(seed, options)
        return self.observer.observe(self.row, 0), self.get_info()

    def begin(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode without observing it."""
        start = find_start(options)
        row = None if start is None else parse_start(start, self.problem)
        super().reset(seed=seed)
        self.row = self.reference_row()
        self.steps = 0
        self.measurement = None
        if row is not None:
            self.evaluate(row)

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Place every unit and evaluate the placement.

        Args:
            action: (N,) device indices, then priority levels and fusion bits if these are decided.

        Raises:
            ValueError: The action has another shape or range.
        """
        if self.steps == self.horizon:
            warn_finished()
        previous = self.last_measurement
        measurement = self.evaluate(self.layout.parse(action))
        self.steps += 1
        reward = self.reward(measurement, previous)
        terminated = self.steps >= self.horizon
        observation = self.observer.observe(self.row, self.steps)
        if self.render_mode == "human":
            self.render()
        return observation, float(reward), terminated, False, self.get_info()

    def evaluate(self, row: IntArray, keep: BoolArray | None = None) -> Measurement:
        """Evaluate a placement, repaired if needed; it becomes the current one.

        Args:
            row: (n_units,) device indices, or a row of all decisions.
            keep: (n_units,) bool, units that a repair moves only if it must.
        """
        rows, repaired = self.repair_rows(row[None], None if keep is None else keep[None])
        measurement = self.backend.evaluate(rows[0])
        self.measurement = replace(measurement, repaired=True) if repaired[0] else measurement
        self.row = rows[0]
        return self.measurement

    def evaluate_batch(self, rows: IntArray) -> tuple[IntArray, Batch]:
        """Evaluate k placements, repaired if needed; the current one stays.

        Args:
            rows: (k, n_units) device indices, or (k, width) rows of all decisions.

        Returns:
            The rows that were evaluated, and their speed-ups and feasibility.
        """
        repaired_rows, _ = self.repair_rows(rows)
        return repaired_rows, self.backend.evaluate_batch(repaired_rows)

    def repair_rows(
        self, rows: IntArray, keep: BoolArray | None = None
    ) -> tuple[IntArray, BoolArray]:
        """The k rows as they are evaluated, complete and repaired; and (k,) which were repaired."""
        rows = self.layout.complete(rows)
        if not self.repair:
            return rows, np.zeros(len(rows), dtype=np.bool_)
        placements, other_decisions = np.split(rows, [self.layout.n_units], axis=1)
        fitting = self.repair_placements(placements, keep)
        repaired: BoolArray = (fitting != placements).any(axis=1)
        if self.on_repair is not None:
            self.on_repair(repaired)
        return np.concatenate([fitting, other_decisions], axis=1), repaired

    def repair_placements(self, assignments: IntArray, keep: BoolArray | None = None) -> IntArray:
        """Repair (k, n_units) placements by this environment's costs.

        Where limits forbid nothing, only units without support move.
        """
        from placement_gym.solvers import repair

        if not self.backend.limits_weights:
            self.problem.check(assignments)
            return self.problem.move_unsupported(assignments)
        return repair(self.problem, assignments, self.repair_prices, keep)

    @cached_property
    def repair_prices(self) -> RepairPrices:
        """The costs that a repair minimises."""
        from placement_gym.solvers import RepairPrices

        return RepairPrices.from_costs(self.problem, self.known_costs)

    def action_masks(self) -> BoolArray:
        """Return (sum of choices,) bool, the allowed values of each entry, as sb3-contrib expects.

        Only devices of units are masked: priority levels and fusion bits are always allowed.
        """
        _, levels, bits = self.layout.counts
        free = np.ones(levels * LEVELS + bits * 2, dtype=np.bool_)
        return np.concatenate([self.observer.device_masks.ravel(), free])

    def get_info(self) -> dict[str, Any]:
        """Return the info of the current placement; arrays are copies."""
        return make_info(self.problem, self.row, self.last_measurement, self.singles)

    def cost_table(self) -> CostTable:
        """Return the simulated costs, or this machine's profile, measured once and kept."""
        return self.backend.cost_table()

    def placement(self) -> Placement:
        """Return the current placement, to save or to compile with."""
        from placement_gym.problem import Placement

        return Placement.from_assignment(self.problem, self.assignment, self.graph)

    def graph_table(self, devices: bool | None = None) -> dict[int, Observation]:
        """Return the static part of observations by ``graph_id``, not scaled, for policies.

        Keys: x, edge_index (2, E), edge_mask, node_mask and action_mask (N, n_devices).

        Args:
            devices: Add the keys of ``observe_devices`` but ``room``; None adds them if they are
                observed. unit_ms (N, D), known without a measurement, are multiples of scale_ms.
        """
        observed = self.observer.observe_devices if devices is None else devices
        return self.observer.graph_table(observed, self.known_costs if observed else None)

    @cached_property
    def painter(self) -> Renderer:
        """Draws placements for ``render``."""
        from placement_gym.envs.render import Renderer

        return Renderer()

    def render(self) -> str | UInt8 | None:
        """Render the current placement as text (``"ansi"``, ``"human"`` prints it) or a picture."""
        return self.painter.render(
            self.render_mode, self.problem, self.assignment, self.last_measurement
        )

    def close(self) -> None:
        """Close the backend."""
        self.backend.close()
