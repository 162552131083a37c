"""A placer that decides unit by unit, learned across graphs and sets of devices."""

from agents.sequential.agent import Sequential
from agents.sequential.network import Network

__all__ = ["Network", "Sequential"]
