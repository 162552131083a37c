"""Plain REINFORCE on tables of logits: what every learned agent is compared with."""

from agents.common.reinforce import REINFORCE
from agents.logits.policy import LogitsPolicy

__all__ = ["REINFORCE", "LogitsPolicy"]
