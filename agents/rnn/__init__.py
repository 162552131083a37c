"""RNN placers: a sequence-to-sequence policy, and its hierarchical variant."""

from agents.rnn.hdp import HDPPolicy
from agents.rnn.policy import RNNPolicy

__all__ = ["HDPPolicy", "RNNPolicy"]
