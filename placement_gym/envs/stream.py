"""``DevicePlacementStream-v0``: every episode places another generated graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from placement_gym.base import (
    FloatArray,
    UInt8,
    UserError,
    check_choice,
    check_integer,
    check_sequence,
    suggest_keywords,
)
from placement_gym.envs.episode import RENDER_MODES, check_render_mode
from placement_gym.envs.render import Renderer
from placement_gym.envs.stream_problem import MakeProblem, StreamProblem, find_problem
from placement_gym.graph import FAMILIES
from placement_gym.graph.families import (
    MAX_DEVICES,
    MAX_EDGES,
    MAX_UNITS,
    MIN_UNITS,
    SEEDS,
    StreamProblems,
    split_of_seed,
)
from placement_gym.hardware import DevicesArgument, resolve_devices
from placement_gym.problem.costs import PRESETS
from placement_gym.solvers.list_policy import LARGEST, N_STATISTICS, N_WEIGHTS

WEIGHTS, UNITS = "weights", "units"
STATISTICS, GRAPH = "statistics", "graph"
PROBLEM = "problem"
"""The one option of ``reset``."""
FRAME = (1100, 750)
"""Width and height of a picture in pixels."""


class StreamEnv(gym.Env[Any, Any]):
    """``DevicePlacementStream-v0``: every episode places another generated graph, in one step.

    ## Description
    Learn a policy that places graphs it has never seen. Every episode poses another
    [simulated](../../docs/explanation/latency.md#simulated) problem: a generated graph of 50 to 800
    operators, a host with two or four GPUs, often with memory limits, and a schedule.

    By default an action sets the weights of a list scheduler, so stock algorithms learn in seconds:

    ```python
    import gymnasium as gym
    import placement_gym
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)  # more threads take several times as long where cores are shared
    envs = make_vec_env("DevicePlacementStream-v0", n_envs=16, env_kwargs={"n_problems": 32})
    model = PPO("MlpPolicy", envs, n_steps=64, learning_rate=1e-3, gamma=0.0, seed=0, device="cpu")
    model.learn(4_096)

    unseen = gym.make("DevicePlacementStream-v0", split="validation")
    observation, _ = unseen.reset(options={"problem": 0})
    action, _ = model.predict(observation, deterministic=True)
    _, reward, *_ = unseen.step(action)
    ```

    On 20 unseen graphs this policy is about 5 % slower than the floor, random actions 35 %. Trained
    on 128 problems it is about level.

    ## Action Space
    `Box(-1, 1, (9,))` with `action="weights"`, the default. The scheduler places one unit after
    another on the device with the lowest cost that has room for it. The cost is the time at which
    the unit would be ready there, plus the unit's time, plus weighted terms:

    * 0: the price of memory on a limited device.
    * 1 and 2: an additional share of the unit's time, and of transfers of its inputs.
    * 3: leaving the device of the latest input.
    * 4: the share of the free memory that the unit takes.
    * 5 and 6: the size of a random device bias, and the probability of a new one before a unit.
    * 7: running on the host.
    * 8: how long the device has been busy.

    With `action="units"` it is a `MultiDiscrete`: a device for each of `sizes[1]` units; entries
    beyond the graph are ignored. `env.unwrapped.action_masks()` is False for devices that cannot
    run a unit. In both forms placements that do not fit into memory are repaired.

    ## Observation Space
    `Box(-10, 10, (11,), float32)` with `observation="statistics"`, the default: sizes, limits,
    transfers, width and schedule. With `observation="graph"` it is the padded dictionary of
    [DevicePlacement-v0](env.py#observation-space), with device features.

    ## Rewards
    log(floor / latency). The floor is the lowest latency of list scheduling by earliest finish,
    filling devices in order, and single devices. A placement that does not fit even when repaired
    has ten times the floor's latency.

    ## Starting State
    A problem drawn from the first `n_problems` of the split; it stays for `episodes` episodes. A
    problem is a seed: 0 to 9999 in `"validation"`, 10000 to 19999 in `"test"` and from 20000 in
    `"train"`. `reset(options={"problem": 10_007})` chooses a problem of the split.

    ## Episode End
    The episode terminates after one step.

    ## Information
    | key | meaning |
    | --- | --- |
    | `latency_ms` | latency of the placement; after `reset` that of the floor |
    | `reference_ms` | latency of the reference device, without memory limits |
    | `floor_ms` | latency of the floor |
    | `speedup` | reference latency / latency |
    | `feasible` | True if the placement is within all limits |
    | `problem` | the problem's seed |

    ## References
    * Weights follow list scheduling by scores: HEFT (Topcuoglu et al. 2002) and Baechi (Jeon et al.
      2020).
    * Splits by seeds follow Procgen (Cobbe et al. 2020).

    ## Version History
    * v0: Initial version.

    Args:
        split: ``"train"``, ``"validation"`` or ``"test"``, which also has families of graphs that
            the others lack.
        n_problems: Number of problems; None takes all of the split.
        families: Families of graphs; None takes those of the split.
        sizes: Smallest and largest number of operators of a graph.
        devices: As for ``SimulatedEnv``; None draws them.
        schedule: A key of ``problem.costs.semantics.PRESETS``; None draws ``"list"`` or
            ``"event"``.
        action: ``"weights"`` or ``"units"``.
        observation: ``"statistics"`` or ``"graph"``.
        episodes: Episodes of a problem before the next one is drawn.
        make_problem: A function from a seed to a ``CostGraph`` (or a ``SampledProblem``), in place
            of ``families``, ``devices`` and ``schedule``. Graphs must keep to ``sizes``.
        render_mode: None, ``"ansi"``, ``"human"`` or ``"rgb_array"``.

    Raises:
        UserError: An argument is unknown or out of range; the message says what is possible.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 1}  # noqa: RUF012  as gym.Env has it

    @suggest_keywords
    def __init__(
        self,
        split: str = "train",
        n_problems: int | None = 128,
        families: Sequence[str] | None = None,
        sizes: Sequence[int] = (MIN_UNITS, MAX_UNITS),
        devices: DevicesArgument = None,
        schedule: str | None = None,
        action: str = WEIGHTS,
        observation: str = STATISTICS,
        episodes: int = 1,
        make_problem: MakeProblem | None = None,
        render_mode: str | None = None,
    ) -> None:
        check_choice("split", split, SEEDS)
        check_choice("action", action, (WEIGHTS, UNITS))
        check_choice("observation", observation, (STATISTICS, GRAPH))
        check_integer("episodes", episodes, 1)
        check_render_mode(render_mode)
        self.render_mode, self.painter = render_mode, Renderer()
        seeds = SEEDS[split]
        if n_problems is not None:
            check_integer("n_problems", n_problems, 1, len(seeds))
            seeds = seeds[:n_problems]
        least, most = check_sizes(sizes)
        if families is not None:
            check_sequence("families", families, ["layered"])
        for family in families or ():
            check_choice("family", family, FAMILIES)
        if schedule is not None:
            check_choice("schedule", schedule, PRESETS)
        if make_problem is not None and not callable(make_problem):
            raise UserError(f"make_problem must be a function of a seed, not {make_problem!r:.80}")
        self.split, self.seeds, self.episodes = split, seeds, episodes
        self.weighted, self.observes_graph = action == WEIGHTS, observation == GRAPH
        specs = None if devices is None else resolve_devices(devices, "simulated")
        n_devices = max(MAX_DEVICES, len(specs or ()))
        self.make_problem: MakeProblem = make_problem or StreamProblems(
            None if families is None else tuple(families), (least, most), specs, schedule or ""
        )
        self.padded = (("max_nodes", most), ("max_edges", MAX_EDGES), ("max_devices", n_devices))
        self.left = 0
        self.take(seeds.start)
        self.action_space: spaces.Space[Any] = spaces.Box(-1.0, 1.0, (N_WEIGHTS,), np.float32)
        if not self.weighted:
            self.action_space = spaces.MultiDiscrete([n_devices] * most)
        self.observation_space: spaces.Space[Any] = spaces.Box(
            -LARGEST, LARGEST, (N_STATISTICS,), np.float32
        )
        if self.observes_graph:
            self.observation_space = self.current.observer.space()

    def take(self, seed: int) -> None:
        self.problem_seed, self.current = seed, self.find_problem(seed)
        self.place: Any = self.current.host

    def check_problem(self, seed: Any) -> int:
        """Return a seed of this environment's split; others raise ``UserError``."""
        check_integer("option 'problem'", seed, 0)
        if (split := split_of_seed(seed)) != self.split:
            raise UserError(
                f"problem {seed} is of the split {split}; {self.split} has problems "
                f"{SEEDS[self.split].start} to {SEEDS[self.split][-1]}"
            )
        return int(seed)

    def find_problem(self, seed: int) -> StreamProblem:
        """Return the problem of a seed, with its scheduler, statistics and floor."""
        return find_problem(self.make_problem, seed, self.padded)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        ``options={"problem": 7}`` chooses a problem of the split; otherwise one is drawn, which
        ``seed`` seeds.

        Raises:
            UserError: There is no such option, or the split has no such problem.
        """
        super().reset(seed=seed)
        for name in options or {}:
            check_choice("an option of reset", name, (PROBLEM,))
        if options:
            self.take(self.check_problem(options[PROBLEM]))
            self.left = 1
        elif seed is not None or not self.left:
            self.take(self.seeds[int(self.np_random.integers(len(self.seeds)))])
            self.left = self.episodes
        self.left -= 1
        problem = self.current
        self.place = problem.host
        return self.observe(problem.host, 0), self.describe(problem.floor_ms, True)

    def step(self, action: ArrayLike) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Place every unit and evaluate the placement; the episode then ends.

        Raises:
            UserError: The action has another shape or range.
        """
        if self.weighted:
            weights = read_weights(np.asarray(action)[None])
            places, costs_ms = self.current.scheduler.find_best(weights, self.make_tastes())
            return self.finish(places[0], float(costs_ms[0]))
        cost, place = self.current.repair(self.current.observer.layout.parse(action))
        return self.finish(place, cost)

    def make_tastes(self) -> np.random.Generator:
        """The source of random biases, seeded by the problem: equal actions get equal rewards."""
        return np.random.default_rng(self.problem_seed)

    def finish(self, place: Any, cost: float) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """End the episode with (n_units,) devices and their cost in ms, infinite if infeasible."""
        problem, self.place = self.current, place
        if self.render_mode == "human":
            self.render()
        feasible, latency_ms = bool(np.isfinite(cost)), problem.latency_ms(cost)
        reward = float(np.log(problem.floor_ms / latency_ms))
        return self.observe(place, 1), reward, True, False, self.describe(latency_ms, feasible)

    def observe(self, place: Any, step: int) -> Any:
        """Observe the problem, or the graph with its units on (n_units,) devices."""
        if not self.observes_graph:
            return self.current.statistics.copy()
        return self.current.observer.observe(place.astype(np.int64), step)

    def describe(self, latency_ms: float, feasible: bool) -> dict[str, Any]:
        return {
            "latency_ms": latency_ms,
            "reference_ms": self.current.reference_ms,
            "floor_ms": self.current.floor_ms,
            "speedup": self.current.reference_ms / latency_ms,
            "feasible": feasible,
            "problem": self.problem_seed,
        }

    def render(self) -> str | UInt8 | None:
        """Render the last placement as text or as a picture of ``FRAME`` pixels."""
        problem, place = self.current, self.place.astype(np.int64)
        measurement = problem.backend.evaluate(place)
        shown = self.painter.render(self.render_mode, problem.problem, place, measurement)
        if not isinstance(shown, np.ndarray):
            return shown
        from PIL import Image, ImageOps

        # The frames of a video need one size.
        return np.asarray(ImageOps.pad(Image.fromarray(shown), FRAME, color="white"))

    def action_masks(self) -> Any:
        """Return (sum of choices,) bool, the allowed devices of units, as sb3-contrib expects."""
        return self.current.observer.device_masks.ravel()


def read_weights(actions: ArrayLike, number: int = 1) -> FloatArray:
    """The (number, ``N_WEIGHTS``) weights of actions; invalid ones raise ``UserError``."""
    weights = np.asarray(actions, dtype=np.float64)
    if weights.shape != (number, N_WEIGHTS) or not np.isfinite(weights).all():
        raise UserError(f"an action is {N_WEIGHTS} numbers from -1 to 1, not {actions!r:.200}")
    return np.minimum(np.maximum(weights, -1.0), 1.0)


def check_sizes(sizes: Sequence[int]) -> tuple[int, int]:
    """Smallest and largest number of operators; ``UserError`` unless the range is wide enough."""
    check_sequence("sizes", sizes, [MIN_UNITS, MAX_UNITS])
    if len(sizes) != 2:
        raise UserError(f"sizes are the fewest and most operators of a graph, not {sizes!r:.80}")
    least, most = sizes
    check_integer("sizes[0]", least, 20)
    check_integer("sizes[1]", most, 2 * least)
    return int(least), int(most)
