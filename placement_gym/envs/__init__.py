"""Environments: observation, reward, info, episodes, and what ``gym.make`` calls."""
