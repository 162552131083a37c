"""GO: one network for many graphs, of any size (GDP, Zhou et al. 2019; GO, 2020)."""

from agents.gdp.gcn import GCNPolicy
from agents.gdp.policy import GOPolicy
from agents.gdp.ppo import UnitPPO

__all__ = ["GCNPolicy", "GOPolicy", "UnitPPO"]
