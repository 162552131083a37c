"""RNN placers: a sequence-to-sequence policy, and its hierarchical variant."""

from agents.rnn.policy import HDPPolicy, RNNOptions, RNNPolicy

__all__ = ["HDPPolicy", "RNNOptions", "RNNPolicy"]
