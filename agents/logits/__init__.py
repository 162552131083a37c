"""Plain REINFORCE on tables of logits: what every learned agent is compared with."""

from agents.common.logits import LogitsPolicy
from agents.common.reinforce import REINFORCE

__all__ = ["REINFORCE", "LogitsPolicy"]
