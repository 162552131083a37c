"""Train the policies that come with the package, and write them where the agents look for names.

    OMP_NUM_THREADS=1 python benchmarks/weights.py placeto gcn

Each agent learns one problem, inception on hsdag-paper, with its settings but for those of
``TRAININGS``, and seed 0; its weights are kept as float16. Then a new one with these weights
predicts a placement without evaluating any; printed is how much faster than the best single device
that is.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

import agents
import placement_gym
from agents.common.weights import save_weights

NAME = "inception-hsdag-paper"
PROBLEM = {"model": "inception", "devices": "hsdag-paper"}


class Training(NamedTuple):
    """Recipe of a policy.

    Attributes:
        evaluations: How many placements are evaluated.
        first: Options of the agent that learns.
        later: Options of an agent that has the weights.
    """

    evaluations: int
    first: dict[str, Any] = {}  # noqa: RUF012
    later: dict[str, Any] = {}  # noqa: RUF012


TRAININGS = {
    "placeto": Training(3_000, {"preset": "paper"}, {"preset": "paper"}),
    "gcn": Training(2_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=TRAININGS, metavar="AGENT")
    options = parser.parse_args()
    print("agent     evaluations  CPU s    kB  x best single")
    for name in options.names:
        folder = agents.AGENTS[name].split(".")[1]
        file = Path(agents.__file__).parent / folder / "weights" / f"{NAME}.safetensors"
        begin = time.process_time()
        train(name, file)
        spent = time.process_time() - begin
        size, speedup = file.stat().st_size / 1e3, predict(name, file)
        evaluations = TRAININGS[name].evaluations
        print(f"{name:8} {evaluations:12,} {spent:6.0f} {size:5.0f} {speedup:14.3f}", flush=True)


def train(name: str, file: Path) -> None:
    """Train an agent on the problem and write its policy."""
    training = TRAININGS[name]
    model: Any = agents.make(name, make_env(), **training.first)
    model.learn(training.evaluations)
    about = {"problem": PROBLEM, "evaluations": training.evaluations}
    save_weights(model, file, about, half=True)


def predict(name: str, file: Path) -> float:
    """Speed-up over the best single device of what a trained policy places at once."""
    env, training = make_env(), TRAININGS[name]
    agent = agents.make(name, env, 1, **training.later, weights=file)
    return float(placement_gym.play_episode(env, agent)["speedup_vs_best_single"])


def make_env() -> gym.Env[Any, Any]:
    return gym.make("DevicePlacementSim-v0", **PROBLEM)


if __name__ == "__main__":
    main()
