"""GO's joint decisions of placement, priority and fusion, compared with annealing.

python benchmarks/go.py --rows joint.jsonl
"""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium as gym
from common import SIMULATED, Row, combine, run_agent, run_benchmark

from placement_gym.bench.run import AgentSpec
from placement_gym.envs import placement_env
from placement_gym.problem import DECISIONS

ARMS = {
    "gdp": AgentSpec("gdp"),
    "gdp, REINFORCE": AgentSpec("agents.gdp:make_reinforce"),
    "annealing": AgentSpec("annealing"),
    "annealing from random": AgentSpec("annealing", {"start": "random"}),
}
SETS = {"placement": DECISIONS[:1], "all three": DECISIONS}
SETTING: Row = {"schedule": "event", "devices": "cpu+2dgpu", "observe_graph": False}


def list_jobs() -> Iterator[Row]:
    models = ("inception", "bert-8")
    return combine(model=models, decisions=SETS, seed=range(5), arm=ARMS, budget=[400])


def decide(model: str, decisions: str, arm: str, seed: int, budget: int) -> Row:
    env = gym.make(SIMULATED, model=model, decisions=SETS[decisions], **SETTING)
    return run_agent(placement_env(env, joint=True), ARMS[arm], seed, budget)


if __name__ == "__main__":
    run_benchmark(__doc__, {"all": (list_jobs, decide)})
