"""``DevicePlacementOnline-v0``, where actions choose plans for requests that arrive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from placement_gym.base import (
    BoolArray,
    UInt8,
    UserError,
    check_choice,
    check_flag,
    check_integer,
    check_not_negative,
    check_positive,
    suggest_keywords,
)
from placement_gym.envs import RENDER_MODES, check_render_mode
from placement_gym.envs.online.kernel import HISTORY_WEIGHT, State, Trace, look, serve
from placement_gym.envs.online.observation import Seen, list_parts, make_space, observe
from placement_gym.envs.online.plans import PlanTable
from placement_gym.envs.online.proposals import propose_plans
from placement_gym.envs.online.traces import (
    PER_SPLIT,
    SPLITS,
    draw_toggles,
    draw_trace,
    read_arrivals,
)
from placement_gym.hardware import DevicesArgument

LATE = 4.0
"""Slow-down above which a request is late."""
MAX_REQUESTS, MAX_PACE = 1_000_000, 1000.0
NO_REQUEST: dict[str, Any] = {
    **dict.fromkeys(("latency_ms", "slowdown", "queue_ms", "loaded_bytes"), 0.0),
    **dict.fromkeys(("late", "refused"), False),
    "plan": 0,
}
"""Info before the first request."""


class OnlineEnv(gym.Env[Seen, np.int64]):
    """``DevicePlacementOnline-v0``: chooses a plan for every request that arrives.

    ## Description
    Several models are served on the same devices. When the environment is made, solvers propose
    plans for each model, ``env.unwrapped.plans``: single devices, splits, a pipeline. In each step
    a request arrives, and the action is the plan that serves it. Devices have queues, other
    programs slow them down at times, and loading weights removes those used least recently. [How to
    use it](../../../docs/how_to/several_models.md#requests-under-load).

    ```python
    import gymnasium as gym
    import placement_gym

    env = gym.make("DevicePlacementOnline-v0", models=["tiny", "cnn:2"], rate=0.8)
    print(env.unwrapped.plans)
    ```

    A step takes 30 microseconds. `gym.make_vec` steps environments one after another.

    ## Action Space
    ``Discrete(n_plans)``. ``action_masks()`` is False for plans of other models; such an action
    counts as the first plan of the request's model.

    ## Observation Space
    ``Box`` of float32; ``env.unwrapped.parts`` has the slice of each part. ``latency`` and
    ``loading`` are divided by the latency of the fastest plan of the request's model, other times
    by the mean of these latencies over models.

    | part | entries | meaning |
    | --- | --- | --- |
    | `queue` | devices | log(1 + work in the queue of each device) |
    | `load` | devices | factor by which work there takes longer now, less 1 |
    | `model` | models | 1 for the model of the request |
    | `latency` | plans | log(latency) by each plan if nothing changes; 10 for other models |
    | `loading` | plans | log(1 + time to load weights) for each plan |
    | `displaced` | plans | log(1 + time to reload what a plan displaces), weighted by `mix` |
    | `work` | plans x devices | log(1 + work of each plan on each device) |
    | `resident` | stages of all plans | 0 if not loaded, 1 if just used, then decreasing |
    | `mix` | models | shares of recent requests |
    | `rate` | 1 | log(recent requests per mean latency) |

    ## Rewards
    Minus the logarithm of the request's slow-down: its latency divided by that of its model's
    fastest plan on idle devices that hold the weights.

    ## Starting State
    Devices are idle and hold no weights. ``reset(options={"trace": 3})`` plays the fourth trace of
    the split; otherwise a random one is played.

    ## Episode End
    The episode is truncated after the last request of the trace.

    ## Information
    For the request that the step placed; zeros after ``reset``.

    | key | meaning |
    | --- | --- |
    | `latency_ms` | latency of the request |
    | `slowdown` | that latency / latency of the model's fastest plan |
    | `late` | True if the slow-down is above 4 |
    | `queue_ms` | work in all queues when the request arrived |
    | `loaded_bytes` | bytes of weights that were loaded |
    | `plan` | the plan that served it |
    | `refused` | True if the action was masked |

    ## Version History
    * v0: Initial version.

    Args:
        models: Names or paths; ``"resnet:2"`` gets twice as many requests.
        devices: As for ``SimulatedEnv``; a limit, or ``weight_share``, applies to the weights of
            all models together.
        rate: Mean number of requests that arrive during one mean latency of the fastest plans. At 1
            they arrive as fast as the fastest devices serve them.
        trace: ``"train"``, ``"validation"`` or ``"test"``, or a CSV file with the columns
            ``time_ms`` and ``model``.
        requests: Requests of an episode; a file has a fixed number.
        pace: Factor by which work takes longer while another program uses the device.
        observe_load: Whether ``load`` and ``latency`` show the effect of other programs.
        plans: A ``PlanTable`` or its file, in place of ``models``, ``devices`` and ``costs``.
        costs: ``"analytic"``: constants of this package; ``"profiled"``: measured on this machine,
            which must have the devices.
        render_mode: None; ``"ansi"``: the plans and the last request, which ``"human"`` prints;
            or ``"rgb_array"``: the queues of the devices.

    Raises:
        UserError: An argument is not valid, or no plan of a model fits the devices.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 10}  # noqa: RUF012  as gym.Env has it

    @suggest_keywords
    def __init__(
        self,
        models: Sequence[str] = ("resnet", "vit", "mobilenet"),
        devices: DevicesArgument = None,
        rate: float = 0.8,
        trace: str = "train",
        requests: int = 400,
        pace: float = 2.0,
        observe_load: bool = True,
        plans: str | PlanTable | None = None,
        costs: str = "analytic",
        render_mode: str | None = None,
    ) -> None:
        check_positive("rate", rate)
        if not str(trace).endswith(".csv"):
            check_choice("trace (or the path of a .csv)", trace, SPLITS)
        check_integer("requests", requests, 1, MAX_REQUESTS)
        check_not_negative("pace", pace, MAX_PACE)
        if pace < 1.0:
            raise UserError(
                f"pace must be at least 1 (other work never makes a device faster), not {pace}"
            )
        check_flag("observe_load", observe_load)
        check_render_mode(render_mode)
        if not isinstance(plans, str | Path | PlanTable | None):
            raise UserError(f"plans is a PlanTable or the path of its file, not {plans!r:.80}")
        if plans is None:
            self.plans = propose_plans(models, devices, costs)
        else:
            self.plans = plans if isinstance(plans, PlanTable) else PlanTable.load(plans)
        self.tables = self.plans.tables
        self.parts = list_parts(self.tables)
        self.rate, self.split = rate, trace
        self.requests, self.pace, self.observe_load = requests, pace, observe_load
        self.render_mode, self.info = render_mode, dict(NO_REQUEST)
        self.arrivals = None if trace in SPLITS else read_arrivals(trace, self.plans)
        self.observation_space: spaces.Space[Any] = make_space(self.tables, pace)
        self.action_space = spaces.Discrete(self.tables.allowed.shape[1])
        self.trace: Trace
        self.state: State

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Start a trace, a random one or ``options={"trace": number}``."""
        super().reset(seed=seed)
        number = (options or {}).get("trace")
        if number is None:
            number = int(self.np_random.integers(PER_SPLIT))
        self.begin(self.make_trace(number))
        return self.observe(), dict(self.info)

    def begin(self, trace: Trace) -> None:
        """Start a trace on idle devices that hold no weights."""
        n_devices, n_stages = len(self.plans.devices), len(self.tables.device)
        self.trace, self.request, self.info = trace, 0, dict(NO_REQUEST)
        self.free_ms = np.zeros(n_devices)
        self.state = State(
            queue_ms=np.zeros(n_devices),
            pace=np.ones(n_devices),
            used=np.full(n_stages, -1),
            mix=np.array(self.plans.shares),
            gap_ms=np.array([self.plans.mean_ms / self.rate]),
        )

    def make_trace(self, number: int) -> Trace:
        """The trace of a number; for requests from a file, the number draws other programs."""
        if not 0 <= number < PER_SPLIT:
            raise UserError(f"traces are numbered from 0 to {PER_SPLIT - 1}, not {number!r:.40}")
        if self.arrivals is None:
            return draw_trace(self.plans, self.rate, self.requests, SPLITS[self.split] + number)
        rng, (arrivals_ms, models) = np.random.default_rng(number), self.arrivals
        toggles_ms = draw_toggles(self.plans, float(arrivals_ms[-1]), rng)
        return Trace(arrivals_ms, models, toggles_ms)

    @property
    def over(self) -> bool:
        """True if the last request has been served."""
        return self.request == len(self.trace.models)

    @property
    def model(self) -> int:
        """The model of the request, after the end that of the last one."""
        return int(self.trace.models[self.request - self.over])

    def observe(self) -> Seen:
        """Observe the request and the devices when it arrives."""
        now_ms = self.trace.arrivals_ms[self.request - self.over]
        look(self.trace, self.pace, self.free_ms, now_ms, self.state)
        if not self.observe_load:
            self.state.pace[:] = 1.0
        return observe(self.tables, self.state, self.model)

    def action_masks(self) -> BoolArray:
        """Return (n_plans,) bool, the plans of the request's model."""
        masks: BoolArray = self.tables.allowed[self.model].copy()
        return masks

    def step(self, action: np.int64 | int) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Serve the request by a plan; the next one arrives.

        Raises:
            UserError: The action is not in the space, or the trace is over.
        """
        if not self.action_space.contains(action):
            last = self.tables.allowed.shape[1] - 1
            raise UserError(f"an action is from 0 to {last}, not {action!r:.40}")
        if self.over:
            raise UserError("the trace is over: call reset")
        plan = int(action) if self.tables.allowed[self.model, action] else 0
        queue_ms = float(self.state.queue_ms.sum())
        trace, used = self.trace, self.state.used
        latency_ms, loaded_bytes = serve(
            self.tables, trace, self.pace, self.free_ms, used, self.request, plan
        )
        slowdown = latency_ms / float(self.tables.reference_ms[self.model])
        self.info = {
            "latency_ms": latency_ms,
            "slowdown": slowdown,
            "late": slowdown > LATE,
            "queue_ms": queue_ms,
            "loaded_bytes": loaded_bytes,
            "refused": bool(plan != action),
            "plan": plan,
        }
        self.update_history()
        self.request += 1
        seen = self.observe()
        if self.render_mode == "human":
            self.render()
        return seen, -float(np.log(slowdown)), False, self.over, dict(self.info)

    def update_history(self) -> None:
        """Update the recent mix and gap by the request and the time until the next one."""
        mix, gap_ms, arrivals_ms = self.state.mix, self.state.gap_ms, self.trace.arrivals_ms
        mix *= HISTORY_WEIGHT
        mix[self.model] += 1.0 - HISTORY_WEIGHT
        following = min(self.request + 1, len(arrivals_ms) - 1)
        last_ms = arrivals_ms[following] - arrivals_ms[self.request]
        gap_ms[0] = HISTORY_WEIGHT * gap_ms[0] + (1.0 - HISTORY_WEIGHT) * last_ms

    def render(self) -> str | UInt8 | None:
        """Render the plans and the last request as text, or the queues as a picture."""
        if self.render_mode == "rgb_array":
            return self.draw_queues()
        text = f"{self.plans}\nlast request: {self.info}"
        if self.render_mode == "human":
            print(text)
        return text if self.render_mode == "ansi" else None

    def draw_queues(self) -> UInt8:
        """(height, width, 3) picture of the work in each queue when the request arrives."""
        from matplotlib.figure import Figure

        from placement_gym.view.figures import render_pixels

        figure = Figure((8.0, 3.0), layout="constrained")
        axes = figure.subplots()
        axes.barh([device.name for device in self.plans.devices], self.state.queue_ms)
        axes.invert_yaxis()
        latency = f"the last one took {self.info['latency_ms']:.3g} ms"
        axes.set(
            xlim=(0.0, max(LATE * self.plans.mean_ms, self.state.queue_ms.max())),
            xlabel="work in the queue, ms",
            title=f"request {self.request + 1} of {len(self.trace.models)}; {latency}",
        )
        return render_pixels(figure)
