"""GO: one network for many graphs, of any size (GDP, Zhou et al. 2019; GO, 2020)."""

from agents.gdp.policy import GCNOptions, GCNPolicy, GOOptions, GOPolicy
from agents.gdp.ppo import UnitPPO

__all__ = ["GCNOptions", "GCNPolicy", "GOOptions", "GOPolicy", "UnitPPO"]
