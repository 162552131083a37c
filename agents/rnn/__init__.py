"""RNN placers: a sequence-to-sequence policy and its hierarchical variant."""

from __future__ import annotations

from dataclasses import replace

from agents.common import SB3_ADAM, LearnedAgent, Preset
from agents.rnn.networks import RNNOptions
from agents.rnn.policy import HDPPolicy, RNNPolicy
from placement_gym.envs import FEATURES

__all__ = ["HDPPolicy", "RNNOptions", "RNNPolicy", "make", "make_hierarchical"]


def entropy(remaining: float) -> float:
    """Weight of the entropy, which falls linearly. Saved models name this function."""
    return 0.002 + 0.048 * remaining


PRESETS = {
    "rl": Preset(
        RNNOptions(features=tuple(FEATURES), devices=True, hidden=64, decoder=128),
        {
            "learning_rate": 1e-3,
            "n_steps": 1,
            "n_epochs": 2,
            "baseline": "leave_one_out",
            "ent_coef": entropy,
        },
        {"num_envs": 10, "horizon": 1, "reward": "log_speedup"},
        SB3_ADAM,
        # not of the papers
        scarce={"respect_memory": True},
    ),
    "paper": Preset(
        RNNOptions(),
        {
            "learning_rate": 1e-3,
            "n_steps": 1,
            "n_epochs": 1,
            "baseline": "moving_average",
            "ent_coef": 0.01,
            "max_grad_norm": 1.0,
        },
        {"num_envs": 10, "horizon": 1, "reward": "neg_sqrt_latency"},
        SB3_ADAM,
    ),
}
"""``numbers.csv`` has the sources of the numbers. ``"paper"`` sees neither times nor limits."""


make = LearnedAgent(RNNPolicy, PRESETS)
"""Makes REINFORCE with ``RNNPolicy``; see ``agents.common.make.LearnedAgent``."""
make_hierarchical = LearnedAgent(
    HDPPolicy, {name: replace(preset, scarce={}) for name, preset in PRESETS.items()}
)
"""The same with ``HDPPolicy``."""
