"""Shared by learned agents: graph batches, policies, REINFORCE, callbacks, environments."""
