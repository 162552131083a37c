"""A placer that decides unit by unit, learned across graphs and sets of devices."""

from agents.sequential.network import Network
from agents.sequential.refined import Refined
from agents.sequential.search import Sequential

__all__ = ["Network", "Refined", "Sequential"]
