"""GO as an agent: its settings, on one problem or across generated ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common.reinforce import REINFORCE
from agents.common.sampled_env import make_training_envs
from agents.common.vec_env import vectorize
from agents.common.weights import load_weights
from agents.gdp.policy import PAPER_FEATURES, GCNPolicy, GOPolicy
from agents.gdp.ppo import UnitPPO
from agents.options import hands_on_to
from agents.search.starts import NOTHING, begin
from placement_gym.base.errors import unknown_name
from placement_gym.envs.placement_env import placement_env

ALGORITHMS: dict[str, type[REINFORCE]] = {"ppo": UnitPPO, "reinforce": REINFORCE}
PLACEMENTS = 20
"""Placements of an update."""
COMMON: dict[str, Any] = {"n_steps": 1, "device": "cpu", "max_grad_norm": 1.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "rl": {"learning_rate": 1e-3, "ent_coef": 0.003},
    "paper": {"learning_rate": 1e-4, "ent_coef": 0.01},
}
"""Arguments of the algorithm. The papers state none of them."""
POLICIES: dict[str, dict[str, Any]] = {
    "rl": {"segment": 256, "memory": 256},
    "paper": {"features": PAPER_FEATURES, "devices": False},
}
"""Arguments of ``GOPolicy``."""
GCN_RATE = 3e-3
"""Learning rate of ``GCNPolicy``."""
ENVS: dict[str, dict[str, Any]] = {
    "rl": {"num_envs": PLACEMENTS, "horizon": 1, "reward": "log_speedup"},
    "paper": {"num_envs": PLACEMENTS, "horizon": 1, "reward": "neg_sqrt_latency"},
}
"""Arguments of ``PlacementVectorEnv``. Advantages are scaled, so that -sqrt(latency) is GO's
-sqrt(latency / reference)."""
TRAINER: dict[str, Any] = {"learning_rate": 3e-4, "ent_coef": 0.003, "max_grad_norm": 1.0}
"""Arguments of ``UnitPPO`` across problems."""


@hands_on_to(UnitPPO)
def make(
    env: gym.Env[Any, Any],
    seed: int,
    preset: str = "rl",
    gcn: bool = False,
    algorithm: str = "ppo",
    begin_with: str = NOTHING,
    weights: str | Path | None = None,
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    **settings: Any,
) -> REINFORCE:
    """Make GO, on batches of placements of one environment.

    Args:
        env: The environment to learn in; its actions may decide priority and fusion, too, but not
            with ``gcn``.
        seed: Seed of all random numbers.
        preset: ``"rl"``; or ``"paper"``, which sees neither costs nor devices.
        gcn: Whether two graph convolutions, ``GCNPolicy``, take the place of GO's network.
        algorithm: ``"ppo"``, see ``UnitPPO``, or ``"reinforce"``.
        begin_with: The first evaluations: ``"nothing"``, ``"heuristics"`` or ``"search"``, see
            ``agents.search.starts``.
        weights: Those that the policy begins with: ``"inception-hsdag-paper"``, trained on that
            problem with ``gcn=True``, or a file of ``agents.save_weights``; None is random.
        policy: Arguments of ``GOPolicy`` or ``GCNPolicy`` that override the preset.
        envs: Arguments of ``PlacementVectorEnv`` that override the preset.
        settings: Arguments of the algorithm that override the preset.

    Raises:
        FileError: The file cannot be read.
        UserError: A preset or an algorithm is unknown, or the weights do not fit.
    """
    if preset not in SETTINGS:
        raise unknown_name("preset", preset, SETTINGS)
    if algorithm not in ALGORITHMS:
        raise unknown_name("algorithm", algorithm, ALGORITHMS)
    kind = GCNPolicy if gcn else GOPolicy
    base = placement_env(env, joint=kind.joint)
    chosen = {**({} if gcn else POLICIES[preset]), **(policy or {})}
    seen = not gcn and bool(chosen.get("devices", True))
    rate = {"learning_rate": GCN_RATE} if gcn else {}
    model = ALGORITHMS[algorithm](
        kind,
        vectorize(env, joint=kind.joint, **ENVS[preset] | (envs or {})),
        policy_kwargs={"graphs": base.graph_table(devices=seen), **chosen},
        seed=seed,
        **{**COMMON, **SETTINGS[preset], **rate, **settings},
    )
    begin(model.policy, env, begin_with, seed)
    if weights is not None:
        load_weights(model, weights, Path(__file__).parent)
    return model


def make_trainer(
    seed: int = 0,
    problems: int = 8,
    episodes: int = 8,
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    **settings: Any,
) -> UnitPPO:
    """Make PPO on problems of the split ``train``; ``learn`` then draws them.

    Every update sees ``episodes`` placements of each of ``problems`` problems, and compares each
    placement with the others of its problem. Placements beyond a limit are repaired, and the
    network sees limits, times and links, so that it fits other devices.

    Args:
        seed: Of weights and problems.
        problems: Of an update.
        episodes: Placements of each, at least two.
        policy: Arguments of ``GOPolicy``.
        envs: Arguments of ``SampledProblemEnv``, as ``draw``.
        settings: Arguments of ``UnitPPO`` that override ``TRAINER``.

    Raises:
        UserError: There are fewer episodes.
    """
    return UnitPPO(
        GOPolicy,
        make_training_envs(problems, episodes, **envs or {}),
        n_steps=episodes,
        seed=seed,
        device="cpu",
        policy_kwargs=policy or {},
        **TRAINER | settings,
    )
