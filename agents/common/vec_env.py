"""Environments as SB3 steps them: many placements together, several graphs, one unit per step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from agents.common.graphs import altered
from placement_gym.base import IntArray, UserError, join_words, warn_user
from placement_gym.envs import (
    DevicePlacementEnv,
    PlacementVectorEnv,
    check_sizes,
    find_placement_env,
    find_step_limit,
    find_wrapper,
    placement_env,
    read_sizes,
)

REQUIRED = {"graph_id", "node_mask", "placement", "step"}
"""Keys of observations that policies of graphs read."""


class PlacementVecEnv(VecEnv):
    """``PlacementVectorEnv`` for SB3's algorithms; see ``vectorize``.

    Each info has latency_ms, reference_ms, best_single_ms, speedup, speedup_vs_best_single,
    feasible and repaired; at the end of an episode also ``terminal_observation`` and ``episode``,
    as SB3's ``Monitor`` records it.

    Args:
        envs: ``PlacementVectorEnv(env, 20)``, or
            ``gym.make_vec("DevicePlacementSim-v0", 20, model="resnet").unwrapped``.
    """

    actions: IntArray

    def __init__(self, envs: PlacementVectorEnv) -> None:
        self.envs = envs
        self.started = perf_counter()
        self.returns = np.zeros(envs.num_envs)
        self.lengths = 0
        assert isinstance(envs.single_observation_space, spaces.Dict)
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> VecEnvObs:
        seeds = self._seeds if any(seed is not None for seed in self._seeds) else None
        observation, _ = self.envs.reset(seed=seeds)
        self._reset_seeds()
        self.returns[:], self.lengths = 0.0, 0
        return observation

    def step_async(self, actions: NDArray[Any]) -> None:
        self.actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        observation, rewards, terminated, truncated, info = self.envs.step(self.actions)
        self.returns += rewards
        self.lengths += 1
        # SB3 expects the last observation of an episode in its info, not next to the infos
        values, final = info.pop("final_info", info), info.pop("final_obs", None)
        names = [name for name in values if not name.startswith("_")]
        infos = [{name: values[name][i] for name in names} for i in range(self.num_envs)]
        if final is not None:  # all episodes end together
            time = round(perf_counter() - self.started, 6)
            for i, info in enumerate(infos):
                info["terminal_observation"] = final[i]
                # the horizon ends an episode; SB3 bootstraps where `max_episode_steps` cuts it
                info["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
                info["episode"] = {"r": float(self.returns[i]), "l": self.lengths, "t": time}
            self.returns[:], self.lengths = 0.0, 0
        return observation, rewards.astype(np.float32), terminated | truncated, infos

    def close(self) -> None:
        self.envs.close()

    # All indices share one environment.

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return [getattr(self.envs.env, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        setattr(self.envs.env, attr_name, value)

    def env_method(
        self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any
    ) -> list[Any]:
        method = getattr(self.envs.env, method_name)
        return [method(*args, **kwargs) for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: VecEnvIndices = None) -> list[bool]:
        """True for ``Monitor``, whose infos are provided, and False for other wrappers."""
        name = getattr(wrapper_class, "__name__", "")
        return [name == "Monitor" for _ in self._get_indices(indices)]


def vectorize(env: gym.Env[Any, Any], joint: bool = False, **kwargs: Any) -> PlacementVecEnv:
    """Make a ``VecEnv`` that evaluates many placements of one environment per step.

    Observations carry no graph: pass ``env.unwrapped.graph_table()`` to policies.

    Args:
        env: The environment, whose budget and backend are used and whose wrappers are not.
        joint: Whether the caller also decides priority and fusion, which are refused otherwise.
        kwargs: Arguments of ``PlacementVectorEnv``.
    """
    base = placement_env(env, joint)
    return PlacementVecEnv(PlacementVectorEnv(base, observe_graph=False, **kwargs))


class WithoutGraph(gym.ObservationWrapper[Any, Any, Any]):
    """Leaves the graph out of observations, as policies of ``agents.make`` have it in a table.

    The first observation raises a ``UserError`` if a wrapper changes the graph.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observer = observer = placement_env(env, joint=True).observer
        self.checked = False
        of_graph = observer.space().keys() - replace(observer, observe_graph=False).space().keys()
        seen: Any = env.observation_space
        self.keys = [key for key in seen if key not in of_graph]
        self.observation_space = spaces.Dict({key: seen[key] for key in self.keys})

    def observation(self, observation: Any) -> Any:
        if not self.checked and "x" in observation:
            if not np.array_equal(observation["x"], self.observer.constant["x"]):
                raise altered("x")
            self.checked = True
        return {key: observation[key] for key in self.keys}


def places_all_units(env: gym.Env[Any, Any]) -> bool:
    """Return whether a step places all units."""
    return placement_env(env, joint=True) is env.unwrapped


@dataclass(frozen=True)
class Rollouts:
    """How an agent of ``agents.make`` steps environments. Saved models name this class.

    Attributes:
        num_envs: Placements of one environment that are evaluated together.
        horizon: Placements of an episode; None takes the environment's.
        reward: Name of the reward; None takes the environment's.
        chosen: Names of those above that the caller of ``agents.make`` chose. These override what
            ``gym.make`` was given, which overrides the preset.
    """

    num_envs: int = 1
    horizon: int | None = None
    reward: str | None = None
    chosen: tuple[str, ...] = ()
    settings: ClassVar[tuple[str, ...]] = ("num_envs", "horizon", "reward")
    """Names that may be chosen; none where a step places one unit."""

    def start(self, given: Any) -> VecEnv:
        """Make the environment of a training; see ``LearnedAgent`` for what may be given.

        Wrappers are stepped. A warning names each setting of the environment that overrides the
        preset.
        """
        if isinstance(given, VecEnv):
            inner = given.unwrapped
            bases: Any = [inner.envs] if isinstance(inner, PlacementVecEnv) else find_bases(given)
            for base in bases[:1]:
                self.compare_settings(base)
            return given
        envs = list(given) if isinstance(given, list | tuple) else [given]
        check_spaces(envs)
        # wrappers around an environment of one unit per step do not fit whole placements
        wrapped = find_wrapper(envs[0]) and places_all_units(envs[0])
        if self.settings and len(envs) == 1 and not wrapped:
            return self.share(envs[0])
        return DummyVecEnv([partial(Monitor, self.step_alone(env)) for env in envs])

    def step_alone(self, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        """The environment with its wrappers and settings, which evaluates a placement per step."""
        self.compare_settings(placement_env(env, joint=True))
        if wrapper := find_wrapper(env):
            warn_user(
                f"{wrapper} is around the environment, which is stepped one placement at a time: "
                f"the policy is called {self.num_envs} times where it is called once without"
            )
        return WithoutGraph(env)

    def share(self, env: gym.Env[Any, Any]) -> PlacementVecEnv:
        """Evaluate many placements of one environment together."""
        settings: dict[str, Any] = {"horizon": self.horizon, "reward": self.reward}
        if places_all_units(env):
            stated = {k: given for k, given in find_stated(env).items() if k not in self.chosen}
            self.warn_replaced(stated, "gym.make was given")
            settings |= {**stated, "max_episode_steps": find_step_limit(env)}
        elif wrapper := find_wrapper(env):
            warn_user(
                f"the agent places all units at once and {wrapper} is around an environment of "
                "one unit a step, so it is not called: wrap DevicePlacementSim-v0 or "
                "DevicePlacement-v0"
            )
        return vectorize(env, joint=True, num_envs=self.num_envs, **settings)

    def compare_settings(self, env: DevicePlacementEnv | PlacementVectorEnv) -> None:
        """Warn where the preset differs from an environment that is stepped unchanged.

        Raises:
            UserError: What the caller chose differs.
        """
        own = {"horizon": env.horizon, "reward": env.reward.__name__}
        for name in self.chosen:
            if name in own and own[name] != getattr(self, name):
                raise UserError(
                    f"{name}={getattr(self, name)!r} needs an environment that is made with it, "
                    "as this one is stepped unchanged: pass it to gym.make"
                )
        self.warn_replaced(own, "the environment has")

    def warn_replaced(self, used: Mapping[str, Any], source: str) -> None:
        """Warn of settings that override the preset's; ``source`` says where they are from."""
        other = [name for name, value in used.items() if getattr(self, name) not in (None, value)]
        if other:
            new = ", ".join(f"{name}={used[name]!r}" for name in other)
            preset = ", ".join(f"{name}={getattr(self, name)!r}" for name in other)
            warn_user(f"{source} {new}, which goes before {preset}")

    def default_steps(self, bases: Sequence[DevicePlacementEnv]) -> int:
        """Steps of a rollout if neither the preset nor the caller gives them."""
        return 1

    def count_steps(self, n_steps: int, env: VecEnv) -> int:
        """Steps of each environment in a rollout of ``n_steps * num_envs`` placements per graph."""
        if isinstance(env.unwrapped, PlacementVecEnv):
            return n_steps
        graphs = {base.observer.graph_id for base in find_bases(env)}
        return n_steps * -(-self.num_envs * max(len(graphs), 1) // env.num_envs)


def start_rollouts(env: Any, saved: dict[str, Any]) -> tuple[Any, int]:
    """Make the environment in which a saved model continues, and count its rollouts' steps."""
    rollouts: Rollouts | None = saved.get("rollouts")
    n_steps: int = saved["n_steps"]
    if rollouts is not None and not hasattr(env, "num_envs"):
        env = rollouts.start(env)
        n_steps = rollouts.count_steps(saved["steps_together"], env)
    sizes = read_sizes(getattr(env, "observation_space", None))
    check_sizes(read_sizes(saved["observation_space"]), sizes)
    return env, n_steps


def find_stated(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Horizon and reward that ``gym.make`` was given."""
    given = env.unwrapped.spec.kwargs if env.unwrapped.spec else {}
    return {name: given[name] for name in ("horizon", "reward") if name in given}


def check_spaces(envs: Sequence[gym.Env[Any, Any]]) -> None:
    """Raise a ``UserError`` unless all environments observe graphs of one size."""
    if not envs:
        raise UserError("the list has no environment: give the agent at least one")
    for env in envs:
        if not isinstance(env.observation_space, spaces.Dict):
            raise UserError(
                "policies of graphs cannot read these observations, as of a wrapper or of "
                "observe='flat': use PPO('MlpPolicy', env), or the environment without that"
            )
        if missing := REQUIRED - {*env.observation_space}:
            raise UserError(
                f"policies of graphs need {join_words(sorted(missing))} of the observation, which "
                "a wrapper leaves out: use the environment without it"
            )
        check_sizes(read_sizes(envs[0].observation_space), read_sizes(env.observation_space))
        if env.action_space != envs[0].action_space:
            raise UserError("environments have different actions: give all the same max_devices")


def find_bases(env: VecEnv) -> list[DevicePlacementEnv]:
    """Find the placement environments of a vector environment; none in other processes."""
    inner = env.unwrapped
    if isinstance(inner, SubprocVecEnv):
        return []
    bases = [find_placement_env(one) for one in inner.get_attr("unwrapped")]
    return [base for base in bases if base is not None]


def read_graphs(env: VecEnv, devices: bool | None) -> dict[int, Any] | None:
    """The graphs of environments by ``graph_id``; None if they have none, or these change."""
    if not env.env_method("has_wrapper_attr", "graph_table", indices=[0])[0]:
        return None
    shared = isinstance(env.unwrapped, PlacementVecEnv)
    tables = env.env_method("graph_table", devices, indices=[0] if shared else None)
    return {graph_id: arrays for table in tables for graph_id, arrays in table.items()}
