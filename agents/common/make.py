"""Learned agents: how models are made of a policy, an algorithm and presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from math import inf
from pathlib import Path
from typing import Any

from stable_baselines3.common.vec_env import VecEnv

from agents.common.policy import GraphPolicy
from agents.common.reinforce import REINFORCE
from agents.common.vec_env import Rollouts, find_bases, read_graphs
from agents.common.weights import load_weights
from agents.options import Option, read_options
from placement_gym.base import check_choice
from placement_gym.envs import placement_env

SB3_ADAM: Mapping[str, Any] = {"eps": 1e-5}
"""Epsilon of Adam in Stable-Baselines3, after OpenAI Baselines; PyTorch's default is 1e-8."""


@dataclass(frozen=True)
class Preset:
    """Settings with which a policy is trained.

    Attributes:
        policy: Options of the policy, an instance of its ``Options``.
        algorithm: Arguments of the algorithm.
        envs: ``num_envs``, ``horizon`` and ``reward``, see ``vec_env.Rollouts``.
        optimizer: Arguments of Adam.
        scarce: Options and arguments that override the others where memory limits placements and
            the environment repairs none.
    """

    policy: Any
    algorithm: Mapping[str, Any]
    envs: Mapping[str, Any] = field(default_factory=dict)
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    scarce: Mapping[str, Any] = field(default_factory=dict)


def make_preset(
    policy: Any, learning_rate: float, scarce: Mapping[str, Any] | None = None
) -> Preset:
    """REINFORCE on twenty placements at once; the baseline of each is the mean of the others."""
    return Preset(
        policy,
        {"learning_rate": learning_rate, "n_steps": 1, "min_spread": 0.05, "max_grad_norm": inf},
        {"num_envs": 20, "horizon": 1, "reward": "log_speedup"},
        # a short memory of gradients, as a rollout repeats most of what the last ones said
        {"betas": (0.5, 0.999)},
        scarce or {},
    )


@dataclass(frozen=True)
class LearnedAgent:
    """A policy, an algorithm and presets: calling it makes a model for an environment.

    Attributes:
        policy: Class of the policy.
        presets: Presets by name.
        algorithm: Class of the algorithm.
        rollouts: How environments are stepped.
    """

    policy: type[GraphPolicy]
    presets: Mapping[str, Preset]
    algorithm: type[REINFORCE] = REINFORCE
    rollouts: type[Rollouts] = Rollouts

    @property
    def __name__(self) -> str:
        """Name in comparisons that are given the factory itself."""
        return self.policy.__name__

    def __call__(
        self,
        env: Any,
        seed: int = 0,
        preset: str = "rl",
        policy: Mapping[str, Any] | None = None,
        envs: Mapping[str, Any] | None = None,
        weights: str | Path | None = None,
        **settings: Any,
    ) -> Any:
        """Make a model that learns in an environment.

        Args:
            env: The environment to learn in, wrapped or not; a list of several, or a ``VecEnv``.
            seed: Seed of all random numbers.
            preset: "rl", the default, or "paper", the publication's numbers.
            policy: Options of the policy that override the preset.
            envs: num_envs, horizon and reward that override the preset.
            weights: What the policy begins with, a file of agents.save_weights; None is untrained.
            settings: Arguments of the algorithm that override the preset.

        Raises:
            FileError: The file of weights cannot be read.
            TypeError: ``env`` is not a placement environment.
            UserError: A preset or an option is unknown or out of range, weights do not fit, or
                the policy cannot make all decisions of the environment.
        """
        check_choice("preset", preset, self.presets)
        chosen, stepping = self.presets[preset], envs or {}
        for name in stepping:
            check_choice("an option of envs", name, self.rollouts.settings)
        several, joint = env if isinstance(env, list | tuple) else [env], self.policy.joint
        is_vector = isinstance(env, VecEnv)
        bases = find_bases(env) if is_vector else [placement_env(one, joint) for one in several]
        options, arguments = asdict(chosen.policy), {"device": "cpu", **chosen.algorithm}
        if any(base.backend.limits_weights and not base.repair for base in bases):
            for name, value in chosen.scarce.items():
                (options if name in options else arguments)[name] = value
        # the caller's options override the preset's
        options, arguments = {**options, **(policy or {})}, {**arguments, **settings}
        rollouts = self.rollouts(**{**chosen.envs, **stepping}, chosen=tuple(stepping))
        venv = rollouts.start(env)
        n_steps = arguments.get("n_steps", rollouts.default_steps(bases))
        arguments["n_steps"] = rollouts.count_steps(n_steps, venv)
        # Observations carry no graph: the policy gets it here, with devices if it reads these.
        graphs = read_graphs(venv, self.policy.reads_devices(options))
        options = {"graphs": graphs, "optimizer_kwargs": dict(chosen.optimizer), **options}
        policy_class: Any = self.policy
        model = self.algorithm(policy_class, venv, policy_kwargs=options, seed=seed, **arguments)
        if venv is not env:  # a VecEnv is stepped unchanged, also after loading
            model.rollouts, model.steps_together = rollouts, n_steps
        if weights is not None:
            load_weights(model, weights)
        return model

    def list_options(self) -> dict[str, Option]:
        """All options with the defaults of the preset "rl", those of the algorithm last."""
        settings = {"device": "cpu", **self.presets["rl"].algorithm}
        own, base = read_options(self.__call__), read_options(REINFORCE, settings)
        options = dict(base)
        # subclasses of REINFORCE only document what differs
        for name, one in read_options(self.algorithm, settings).items():
            options[name] = one if one.meaning or name not in base else base[name]
        options = {name: one for name, one in options.items() if name not in self.algorithm.unused}
        of_policy = ", ".join(sorted(item.name for item in fields(self.policy.Options)))
        own["policy"] = Option(None, f"{own['policy'].meaning} They are: {of_policy}.")
        if not self.rollouts.settings:  # one placement at a time, with the environment's reward
            del own["envs"]
        return {**own, **options, **own}
