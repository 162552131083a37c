"""DOPPLER as an agent: presets, and policies from files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
from pydantic import Field

from agents.common.weights import find_weights, read_safetensors, to_tensors
from agents.doppler.doppler import KIND, Doppler, list_features
from agents.doppler.episodes import Settings
from agents.doppler.networks import DualPolicy
from placement_gym.base.errors import UserError, unknown_name
from placement_gym.base.files import FileError
from placement_gym.base.schemas.reading import Fields, check

PAPER = Settings(
    sample=False,
    respect_memory=False,
    own_features=False,
    earliest="start",
    rows=1,
    imitation=2000,
    simulation=2000,
    learning_rate=1e-3,
    gradient_rate=1e-4,
    uniform=(1.0, 0.2, 0.2),
    entropy=(0.001, 0.0, 0.0),
    discount=0.99,
    baseline="all",
    scale=False,
    ties="sum",
    max_norm=None,
)
"""The published code's numbers; its networks have ``hidden=128, rounds=6``."""
PRESETS: dict[str, tuple[Settings, dict[str, int]]] = {
    "rl": (Settings(), {"hidden": 32, "rounds": 3}),
    "paper": (PAPER, {"hidden": 128, "rounds": 6}),
}


def make(
    env: gym.Env[Any, Any],
    seed: int,
    preset: str = "rl",
    checkpoint: str | Path | None = None,
    hidden: int | None = None,
    rounds: int | None = None,
    **changes: Any,
) -> Doppler:
    """Make DOPPLER.

    Args:
        env: The environment that evaluates placements.
        seed: Seed of all random numbers.
        preset: ``"rl"`` or ``"paper"``.
        checkpoint: A trained policy: ``"inception-hsdag-paper"``, trained on that problem with the
            default preset, or a file of ``Doppler.save``; stages 1 and 2 are left out then.
        hidden: Width of the embeddings; None takes the preset's, or the checkpoint's.
        rounds: Rounds of messages; None takes the preset's, or the checkpoint's.
        changes: Attributes of ``Settings`` that override the preset.

    Raises:
        FileError: The checkpoint cannot be read.
        UserError: It is neither, or sees other features; or sizes are given with it; or the
            preset is unknown.
        TypeError: Unknown setting.
    """
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    settings, sizes = PRESETS[preset]
    settings = replace(settings, **changes)
    if checkpoint is not None:
        if hidden is not None or rounds is not None:
            raise UserError("a checkpoint has its own hidden and rounds: leave them out")
        file = find_weights(checkpoint, Path(__file__).parent)
        return Doppler(env, seed, settings, load_policy(file, settings.n_features))
    given = {"hidden": hidden, "rounds": rounds}
    sizes = sizes | {key: value for key, value in given.items() if value is not None}
    return Doppler(env, seed, settings, hidden=sizes["hidden"], rounds=sizes["rounds"])


class Sizes(Fields):
    """Arguments of ``DualPolicy``."""

    hidden: int = Field(ge=1, le=1024)
    rounds: int = Field(ge=0, le=64)
    n_features: int = Field(ge=1, le=64)


class PolicyFields(Fields):
    """The metadata of weights."""

    kind: str
    features: list[list[str]]
    settings: Sizes


def load_policy(path: str | Path, n_features: int) -> DualPolicy:
    """Read both policies from a file of ``save_weights``, by anyone: nothing in it is run.

    Args:
        path: The file.
        n_features: Columns of a device that the policy is to see.

    Raises:
        FileError: The file cannot be read.
        UserError: It is damaged, or the policy sees other features.
    """
    try:
        weights, about = read_safetensors(path)
        fields = check(PolicyFields, about)
        if fields.kind != KIND:
            raise UserError(f"saved by {fields.kind!r:.60}; this agent is {KIND!r}")
        if fields.features != list_features() or fields.settings.n_features != n_features:
            raise UserError("it was trained with other features; train it again")
        policy = DualPolicy(**vars(fields.settings))
        policy.load_state_dict(to_tensors(weights, policy.state_dict()))
    except FileError:
        raise
    except UserError as error:
        raise UserError(f"{path} is no checkpoint of DOPPLER: {error}") from error
    return policy
