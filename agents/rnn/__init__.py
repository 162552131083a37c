"""RNN placers: a sequence-to-sequence policy, and its hierarchical variant."""

from agents.rnn.policy import HDPPolicy, RNNPolicy

__all__ = ["HDPPolicy", "RNNPolicy"]
