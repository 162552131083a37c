"""HSDAG for sb3-contrib's MaskablePPO; needs ``pip install ".[contrib]"``."""

from __future__ import annotations

from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from agents.hsdag.policy import HSDAGActor


class MaskableHSDAGPolicy(HSDAGActor, MaskableActorCriticPolicy):
    """HSDAG with the environment's ``action_masks``; see ``HSDAGActor``."""
