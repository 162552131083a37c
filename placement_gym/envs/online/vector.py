"""``gym.make_vec("DevicePlacementOnline-v0", num_envs=k)``: k traces in one compiled step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from placement_gym.base.arguments import check_integer
from placement_gym.base.arrays import BoolArray, FloatArray, IntArray
from placement_gym.base.errors import UserError
from placement_gym.envs.online.env import OnlineEnv
from placement_gym.envs.online.observation import Seen
from placement_gym.envs.online.traces import PER_SPLIT
from placement_gym.envs.same_step import SameStepVectorEnv

INFOS = ("latency_ms", "slowdown", "late", "queue_ms", "loaded_bytes")


class OnlineVectorEnv(SameStepVectorEnv[Seen, IntArray], VectorEnv[Seen, IntArray, NDArray[Any]]):
    """Equal to k single environments; episodes end together.

    They are reset in the step that ends them (``AutoresetMode.SAME_STEP``); ``final_obs`` and
    ``final_info`` hold the end. Infos are those of ``OnlineEnv``, (num_envs,) each.

    Args:
        num_envs: Traces at a time.
        kwargs: As for ``OnlineEnv``.

    Raises:
        UserError: ``num_envs`` is not a positive integer, or an argument is not valid.
    """

    def __init__(self, num_envs: int = 1, **kwargs: Any) -> None:
        check_integer("num_envs", num_envs, 1)
        self.env = OnlineEnv(**kwargs)
        self.set_spaces(num_envs, self.env.observation_space, self.env.action_space)
        self.rngs = [np.random.default_rng() for _ in range(num_envs)]

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Seen, dict[str, Any]]:
        """Begin all traces; ``options={"trace": k}`` plays those from the k-th one on.

        Raises:
            UserError: There is not one seed per environment.
        """
        for number, own in enumerate(self.list_seeds(seed)):
            if own is not None:
                self.rngs[number] = np.random.default_rng(own)
        first = (options or {}).get("trace")
        self.begin(None if first is None else range(first, first + self.num_envs))
        return self.sim.arrive(), self.mask(dict.fromkeys(INFOS, np.zeros(self.num_envs)))

    def begin(self, numbers: Sequence[int] | None = None) -> None:
        """Begin traces of these numbers, or random ones."""
        if numbers is None:
            numbers = [int(rng.integers(PER_SPLIT)) for rng in self.rngs]
        self.sim = self.env.simulate([self.env.make_trace(number) for number in numbers])

    def step(
        self, actions: IntArray
    ) -> tuple[Seen, FloatArray, BoolArray, BoolArray, dict[str, Any]]:
        """Run one request of each trace.

        Raises:
            UserError: Actions have another shape or range.
        """
        if not self.action_space.contains(np.asarray(actions)):
            last = self.env.tables.allowed.shape[1] - 1
            raise UserError(
                f"actions are {self.num_envs} numbers from 0 to {last}, not {actions!r:.80}"
            )
        plans = self.env.replace_refused(self.sim.models, actions)
        queue_ms = self.sim.state.queue_ms.sum(axis=1)
        models, ms, loaded_bytes = self.sim.serve(plans)
        slowdown = self.env.slowdown_of(models, ms)
        values = ms, slowdown, slowdown > self.env.deadline, queue_ms, loaded_bytes
        seen, info = self.sim.arrive(), self.mask(dict(zip(INFOS, values, strict=True)))
        over = np.full(self.num_envs, self.sim.over)
        if self.sim.over:
            info |= self.report_ends(seen, dict(info))
            self.begin()
            seen = self.sim.arrive()
        return seen, self.env.reward_of(slowdown), np.zeros_like(over), over, info
