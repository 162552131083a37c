"""List schedules whose weights a policy chooses: an answer for any graph in a millisecond."""

from agents.list_policy.agent import ListPolicyAgent
from agents.list_policy.training import BestOfK, best_of_k_advantages, export_ppo, make_trainer

__all__ = ["BestOfK", "ListPolicyAgent", "best_of_k_advantages", "export_ppo", "make_trainer"]
