"""GO as an agent of the benchmark: policy, algorithm and the settings of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common.reinforce import REINFORCE
from agents.common.starts import RANDOM, begin_with
from agents.common.vec_env import vectorize
from agents.common.weights import load_weights
from agents.gdp.gcn import GCNPolicy
from agents.gdp.policy import PAPER_FEATURES, GOPolicy
from agents.gdp.ppo import UnitPPO
from placement_gym.env import placement_env
from placement_gym.errors import unknown_name

ALGORITHMS: dict[str, type[REINFORCE]] = {"ppo": UnitPPO, "reinforce": REINFORCE}
PLACEMENTS = 20
"""Placements of an update."""
COMMON: dict[str, Any] = {"n_steps": 1, "device": "cpu", "max_grad_norm": 1.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {
        "learning_rate": 1e-3,
        "gradient": 0.0,
        "ent_coef": 0.0,
        "elites": 2,
        "imitation": 10.0,
    },
    "search": {"learning_rate": 1e-3, "ent_coef": 0.003},
    "paper": {"learning_rate": 1e-4, "ent_coef": 0.01},
    "gcn": {"learning_rate": 3e-3, "ent_coef": 0.003},
}
"""Arguments of the algorithm. The papers state none of them. Imitation alone was better on
validation problems than with the policy gradient."""
SEGMENTS = {"segment": 256, "memory": 256}
POLICIES: dict[str, tuple[type[GOPolicy] | type[GCNPolicy], dict[str, Any]]] = {
    "default": (GOPolicy, {**SEGMENTS, "greedy_first": True}),
    "search": (GOPolicy, SEGMENTS),
    "paper": (GOPolicy, {"features": PAPER_FEATURES, "devices": False}),
    "gcn": (GCNPolicy, {}),
}
ENVS: dict[str, dict[str, Any]] = {
    "default": {"num_envs": 10, "horizon": 1, "reward": "log_speedup"},
    "search": {"num_envs": PLACEMENTS, "horizon": 1, "reward": "log_speedup"},
    "paper": {"num_envs": PLACEMENTS, "horizon": 1, "reward": "neg_sqrt_latency"},
    "gcn": {"num_envs": PLACEMENTS, "horizon": 1, "reward": "log_speedup"},
}
"""Arguments of ``PlacementVectorEnv``. Advantages are scaled, so that -sqrt(latency) is GO's
-sqrt(latency / reference)."""

STARTS = {"default": "heuristics", "search": RANDOM, "paper": RANDOM, "gcn": RANDOM}


def make(
    env: gym.Env[Any, Any],
    seed: int,
    preset: str = "default",
    algorithm: str = "ppo",
    start: str | None = None,
    weights: str | Path | None = None,
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    **settings: Any,
) -> REINFORCE:
    """Make GO, on batches of placements of one environment.

    Args:
        env: The environment to learn in; its actions may decide priority and fusion, too, but not
            with ``preset="gcn"``.
        seed: Seed of all random numbers.
        preset: ``"default"``, which begins with heuristics and imitates its best placements;
            ``"search"``, which follows the policy gradient alone; ``"paper"``, which sees neither
            costs nor devices either; or ``"gcn"``, two graph convolutions in place of GO's
            network.
        algorithm: ``"ppo"``, see ``UnitPPO``, or ``"reinforce"``.
        start: What is evaluated first, see ``agents.search.starts.propose_starts``; None takes
            the preset's.
        weights: What the policy begins with: ``"inception-hsdag-paper"``, trained on that problem
            with ``preset="gcn"``, or a file of ``agents.save_weights``; None is
            random.
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
    kind, options = POLICIES[preset]
    base = placement_env(env, joint=kind.joint)
    told = {**options, **(policy or {})}
    seen = kind is GOPolicy and bool(told.get("devices", True))
    model = ALGORITHMS[algorithm](
        kind,
        vectorize(env, joint=kind.joint, **ENVS[preset] | (envs or {})),
        policy_kwargs={"graphs": base.graph_table(devices=seen), **told},
        seed=seed,
        **{**COMMON, **SETTINGS[preset], **settings},
    )
    begin_with(model.policy, env, STARTS[preset] if start is None else start)
    if weights is not None:
        load_weights(model, weights, Path(__file__).parent)
    return model
