"""``DevicePlacementOnline-v0``: every step a request arrives, and the action chooses its plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from placement_gym.base.arguments import (
    check_flag,
    check_integer,
    check_not_negative,
    check_positive,
    suggest_keywords,
)
from placement_gym.base.arrays import BoolArray, FloatArray
from placement_gym.base.errors import UserError, unknown_name
from placement_gym.envs.online.kernel import look, serve
from placement_gym.envs.online.observation import KEPT, Layout, fill_observation, make_space
from placement_gym.envs.online.plans import PlanTable, propose_plans
from placement_gym.envs.online.traces import (
    PER_SPLIT,
    SPLITS,
    Trace,
    check_trace,
    draw_toggles,
    draw_trace,
    find_seed,
    read_arrivals,
)
from placement_gym.hardware.device_requests import DevicesArgument

REWARDS = ("log_slowdown", "deadline")
MAX_REQUESTS = 1_000_000
Seen = NDArray[np.float32]


class OnlineEnv(gym.Env[Seen, np.int64]):
    """``DevicePlacementOnline-v0``: chooses a plan for every request that arrives.

    ## Description
    Several models are served on common devices. At ``make`` solvers propose plans for each model,
    ``env.unwrapped.plans``: the devices alone, splits, a pipeline. Each step is a request that has
    just arrived, and the action is the plan that it runs by. Devices have queues, other programs
    slow them down for a while, and weights that a device does not hold have to be loaded, in place
    of those that were not used for longest.

    ```python
    import gymnasium as gym
    import placement_gym

    env = gym.make("DevicePlacementOnline-v0", models=["resnet", "vit", "mobilenet:2"], rate=0.8)
    print(env.unwrapped.plans)
    ```

    ## Action Space
    ``Discrete(n_plans)``. ``action_masks()`` is False for plans that the model of the request does
    not have, and such a request runs by the first plan that it has.

    ## Observation Space
    A float32 ``Box``; ``env.unwrapped.layout.parts`` has the slice of each part. Times are relative
    to the latency of the fastest plans: for ``latency`` and ``loading`` that of the request's
    model, else the mean of all models.

    | part | entries | meaning |
    | --- | --- | --- |
    | `queue` | devices | log(1 + work in the queue of each device) |
    | `load` | devices | times as long that work takes there now, less 1 |
    | `model` | models | 1 for the model of the request |
    | `latency` | plans | log(latency) of the request by each plan if nothing changes; 10 if there is no such plan |
    | `loading` | plans | log(1 + time to load weights) for each plan |
    | `work` | plans x devices | log(1 + work of each plan on each device) |
    | `resident` | stages | 1 where the weights of a stage are loaded, stages of all plans of all models |
    | `mix` | models | shares of recent requests |
    | `rate` | 1 | log(requests in a mean latency, recently) |

    ## Rewards
    ``"log_slowdown"``: minus the logarithm of the request's slow-down, its latency over that of its
    model's fastest plan on idle devices that hold the weights. ``"deadline"``: -1 for a request
    whose slow-down exceeds ``deadline``, else 0.

    ## Starting State
    Idle devices that hold nothing. ``reset(options={"trace": 3})`` plays the fourth trace of the
    split, without it a random one.

    ## Episode End
    Truncated after the last request of the trace.

    ## Information
    ``latency_ms``, ``slowdown``, ``late`` (beyond the deadline), ``queue_ms`` (work in all queues
    when the request came), ``loaded_bytes``, ``refused`` (whether the action was masked) and
    ``plan`` (that it ran by), of the request of the last step; zeros after ``reset``.

    ## Version History
    * v0: Initial version.

    Args:
        models: Names or paths; ``"resnet:2"`` gets twice as many requests.
        devices: As for ``DevicePlacementSim-v0``; a limit, or ``weight_share``, is that of the
            weights of all models together.
        rate: Requests that arrive in a mean latency of the fastest plans. At 1 the fastest devices
            alone would be just busy.
        trace: ``"train"``, ``"validation"`` or ``"test"``, traces drawn by seeds of their own; or a
            CSV file with the columns ``time_ms`` and ``model``.
        reward: ``"log_slowdown"`` or ``"deadline"``.
        deadline: Slow-down beyond which a request is late.
        requests: Of an episode; a file has its own number.
        pace: Times as long that work takes on a device while another program has it.
        observe_load: Whether other programs are seen, in ``load`` and in ``latency``.
        costs: ``"analytic"`` or, of this machine's devices, ``"profiled"``.
        plans: File of plans to take in place of ``models``, ``devices`` and ``costs``.
        render_mode: ``"ansi"``: the plans, and the last request.

    Raises:
        UserError: An argument is not valid, or no plan of a model fits the devices.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  as Gymnasium has it

    @suggest_keywords
    def __init__(
        self,
        models: Sequence[str] = ("resnet", "vit", "mobilenet"),
        devices: DevicesArgument = None,
        rate: float = 0.8,
        trace: str = "train",
        reward: str = "log_slowdown",
        deadline: float = 4.0,
        requests: int = 400,
        pace: float = 2.0,
        observe_load: bool = True,
        costs: str | None = None,
        plans: str | PlanTable | None = None,
        render_mode: str | None = None,
    ) -> None:
        check_arguments(rate, trace, reward, deadline, requests, pace, observe_load)
        self.plans = find_plans(models, devices, costs, plans)
        self.layout, self.tables = Layout.of(self.plans), self.plans.tables
        self.rate, self.split, self.reward, self.deadline = rate, trace, reward, deadline
        self.requests, self.pace, self.observe_load = requests, pace, observe_load
        self.arrivals = None if trace in SPLITS else read_arrivals(trace, self.plans)
        self.render_mode = render_mode
        self.observation_space = make_space(self.plans, pace)
        self.action_space = spaces.Discrete(self.layout.n_plans)
        self.info = describe(0.0, 0.0, False, 0.0, 0.0, False, 0)
        self.queue_ms, self.paces = np.zeros(self.layout.n_devices), np.ones(self.layout.n_devices)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Begin a trace; see the class."""
        super().reset(seed=seed)
        number = (options or {}).get("trace")
        if number is None:
            number = int(self.np_random.integers(PER_SPLIT))
        self.begin(self.make_trace(number))
        self.info = describe(0.0, 0.0, False, 0.0, 0.0, False, 0)
        return self.observe(), dict(self.info)

    def make_trace(self, number: int) -> Trace:
        """The trace of a number; that of a file has other programs drawn by it."""
        if self.arrivals is None:
            seed = find_seed(self.split, number)
            return draw_trace(self.plans, self.rate, self.requests, seed)
        rng, (arrivals_ms, models) = np.random.default_rng(number), self.arrivals
        toggles_ms = draw_toggles(self.plans, float(arrivals_ms[-1]), rng)
        return Trace(arrivals_ms, models, toggles_ms)

    def begin(self, trace: Trace) -> None:
        """Begin a trace with idle devices that hold nothing."""
        self.trace, self.load = trace, trace.load(self.pace)
        self.request = 0
        self.free_ms = np.zeros(self.layout.n_devices)
        self.used = np.full(self.layout.n_stages, -1)
        self.mix, self.gap_ms = np.array(self.plans.shares), self.plans.mean_ms / self.rate
        self.look()

    def look(self) -> None:
        """Find what is known of the devices as a request arrives."""
        look(self.load, self.free_ms, self.now_ms, self.queue_ms, self.paces)

    @property
    def now_ms(self) -> float:
        """When the request arrived; after the last one, when that did."""
        return float(self.trace.arrivals_ms[min(self.request, len(self.trace.models) - 1)])

    @property
    def model(self) -> int:
        """Model of the request."""
        return int(self.trace.models[min(self.request, len(self.trace.models) - 1)])

    @property
    def visible_paces(self) -> FloatArray:
        """(n_devices,) what a policy sees of other programs."""
        return self.paces if self.observe_load else np.ones_like(self.paces)

    def observe(self) -> Seen:
        """The observation of the request that has arrived."""
        seen = np.empty(self.layout.size, np.float32)
        known = self.queue_ms, self.visible_paces, self.used, self.model
        fill_observation(self.tables, *known, self.mix, self.gap_ms, seen)
        return seen

    def action_masks(self) -> BoolArray:
        """(n_plans,) whether the model of the request has each plan."""
        masks: BoolArray = self.tables.allowed[self.model].copy()
        return masks

    def step(self, action: np.int64 | int) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Run the request by a plan, and wait for the next one.

        Raises:
            UserError: The action is not one of the space, or the episode is over.
        """
        if not self.action_space.contains(action):
            raise UserError(f"an action is from 0 to {self.action_space.n - 1}, not {action!r:.40}")
        if self.request == len(self.trace.models):
            raise UserError("the trace is over: call reset")
        refused = not self.tables.allowed[self.model, action]
        plan = int(self.tables.allowed[self.model].argmax() if refused else action)
        reward = self.serve(plan, refused)
        self.advance()
        over = self.request == len(self.trace.models)
        return self.observe(), reward, False, over, dict(self.info)

    def serve(self, plan: int, refused: bool) -> float:
        """Run the request by a plan; returns its reward."""
        queue_ms, number = float(self.queue_ms.sum()), self.model * self.layout.n_plans + plan
        state = self.free_ms, self.used, self.now_ms, self.request, number
        ms, loaded_bytes = serve(self.tables, self.load, *state)
        slowdown = ms / float(self.tables.reference_ms[self.model])
        late = slowdown > self.deadline
        self.info = describe(ms, slowdown, late, queue_ms, loaded_bytes, refused, plan)
        return -float(late) if self.reward == "deadline" else -float(np.log(slowdown))

    def advance(self) -> None:
        """Go on to the next request."""
        model, before_ms = self.model, self.now_ms
        self.request += 1
        self.mix *= KEPT
        self.mix[model] += 1.0 - KEPT
        self.gap_ms = KEPT * self.gap_ms + (1.0 - KEPT) * (self.now_ms - before_ms)
        self.look()

    def render(self) -> str | None:
        """The plans, and the last request."""
        if self.render_mode is None:
            return None
        return f"{self.plans}\nlast request: {self.info}"


def describe(
    latency_ms: float,
    slowdown: float,
    late: bool,
    queue_ms: float,
    loaded_bytes: float,
    refused: bool,
    plan: int,
) -> dict[str, Any]:
    """The info of a request; see ``OnlineEnv``."""
    return dict(locals())


def check_arguments(
    rate: float,
    trace: str,
    reward: str,
    deadline: float,
    requests: int,
    pace: float,
    observe_load: bool,
) -> None:
    """Raise ``UserError`` if an argument of ``OnlineEnv`` is not valid."""
    check_positive("rate", rate)
    check_trace(trace)
    if reward not in REWARDS:
        raise unknown_name("reward", reward, REWARDS)
    check_positive("deadline", deadline)
    check_integer("requests", requests, 1, MAX_REQUESTS)
    check_not_negative("pace", pace, 1000.0)
    if pace < 1.0:
        raise UserError(f"pace must be at least 1, work takes no less time beside others: {pace}")
    check_flag("observe_load", observe_load)


def find_plans(
    models: Sequence[str],
    devices: DevicesArgument,
    costs: str | None,
    plans: str | PlanTable | None,
) -> PlanTable:
    """The plans that are given, in a file or not, or that solvers propose."""
    if isinstance(plans, PlanTable):
        return plans
    return propose_plans(models, devices, costs) if plans is None else PlanTable.load(plans)
